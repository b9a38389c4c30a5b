"""What the results of vision-language policies say of the claims on them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import claim_findings as claims
from benchmarks import large_findings, record
from oatkit.evaluation.success_statistics import success_rate


def pipeline_row(ways: dict[str, int], **settings: Any) -> dict[str, Any]:
    """A row of the pipeline: way of acting to successes of 60 episodes."""
    made = {"steps": 2000, "batch_size": 32, "tokenizer_steps": 800, "tokens": 8, "horizon": 16}
    made |= {"demonstrations": 100, "image_size": 64, "temperature": 0.0, "decoding": "relaxed"}
    loops = {way: {"all": asdict(success_rate(number, 60))} for way, number in ways.items()}
    return {"closed loop": loops, "settings": {**made, **settings}}


def save_pipeline(**rows: dict[str, Any]) -> None:
    found = {f"vlm-ar/{kind.replace('_', '-')}/paligemma2": row for kind, row in rows.items()}
    record.write_result("vlm_pipeline", seed=0, settings={}, results={"policies": found})


def test_vision_language_policies_decide_if_they_were_trained_alike(results: Path) -> None:
    quest = large_findings.generates("paligemma2", "quest", claims.is_larger)
    own = pipeline_row({"as it is": 50})
    save_pipeline(oat=own, quest=pipeline_row({"as it is": 10}))
    assert quest().status == claims.AGREES
    save_pipeline(oat=own, quest=pipeline_row({"as it is": 10}, tokenizer_steps=9, horizon=32))
    assert quest().status.endswith("tokenizer steps 9 and 800; actions 32 and 16)")
    fast = large_findings.generates("paligemma2", "fast", claims.is_larger)
    save_pipeline(oat=own, fast=pipeline_row({"as it is": 10}, tokenizer_steps=0))
    assert fast().status == claims.AGREES
    save_pipeline(oat=own, fast=pipeline_row({"as it is": 10}, decoding="strict"))
    assert fast() == claims.NOT_MEASURED, "the paper mends sequences"


def test_success_rises_with_tokens_if_no_pair_of_budgets_contradicts_it(results: Path) -> None:
    rises = large_findings.rises("paligemma2")
    save_pipeline(oat=pipeline_row({"as it is": 50}))
    assert rises() == claims.NOT_MEASURED
    save_pipeline(oat=pipeline_row({"as it is": 50, "budget 1": 10}))
    assert rises().status == claims.AGREES
    save_pipeline(oat=pipeline_row({"as it is": 50, "budget 1": 30, "budget 2": 10}))
    assert rises().status == claims.DIFFERS
    assert "1 and 2 tokens: 50 and 17 %" in rises().ours
    assert large_findings.best_with_all("paligemma2")().status == claims.AGREES
    save_pipeline(oat=pipeline_row({"as it is": 50, "budget 1": 10, "budget 2": 59}))
    assert "2 and all tokens: 98 and 83 %" in rises().ours
    assert large_findings.best_with_all("paligemma2")().status == claims.DIFFERS


def test_a_kind_is_the_worst_if_no_other_is_worse(results: Path) -> None:
    worst = large_findings.is_least("paligemma2", "bin")
    save_pipeline(oat=pipeline_row({"as it is": 50}))
    assert worst() == claims.NOT_MEASURED
    rows = {"oat": pipeline_row({"as it is": 50}), "bin": pipeline_row({"as it is": 10})}
    save_pipeline(**rows)
    assert worst().status == claims.AGREES
    save_pipeline(**rows, quest=pipeline_row({"as it is": 0}))
    assert worst().status == claims.DIFFERS


@pytest.mark.parametrize(
    ("statuses", "joined"),
    [
        ((claims.AGREES, claims.AGREES), claims.AGREES),
        ((claims.AGREES, claims.UNSURE), claims.UNSURE),
        ((claims.UNSURE, claims.DIFFERS), claims.DIFFERS),
        ((claims.MISSING, claims.AGREES), claims.MISSING),
    ],
)
def test_findings_together(statuses: tuple[str, ...], joined: str) -> None:
    found = [claims.Found("1 %", status, "control") for status in statuses]
    both = large_findings.together(*(lambda one=one: one for one in found))()
    assert both == claims.Found("1 %; 1 %", joined, "control")
    assert large_findings.together(lambda: claims.NOT_MEASURED)() == claims.NOT_MEASURED
