"""What the results of tokenizers say of the claims on them."""

from __future__ import annotations

from pathlib import Path

from benchmarks import claim_findings as claims
from benchmarks import record, tokenizer_findings
from oatkit.jobs.paper_tables import PAPER_KINDS


def rate_distortion(errors: dict[str, dict[str, list[float]]]) -> None:
    found = {
        data: {
            kind: {
                "steps": 10,
                "budgets": [{"mse": error, "tokens": 16} for error in values],
            }
            for kind, values in kinds.items()
        }
        for data, kinds in errors.items()
    }
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=found)


def test_every_dataset_decides_on_errors(results: Path) -> None:
    falling, rising = [3.0, 2.0, 1.0], [3.0, 1.0, 2.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    assert tokenizer_findings.falls("oat")().status == claims.AGREES
    assert tokenizer_findings.tracks().status == claims.AGREES
    rate_distortion(
        {
            "metaworld": {"oat": falling, "oat-pow2": falling},
            "pusht": {"oat": rising, "oat-pow2": [3.0, 1.3, 2.0]},
        }
    )
    assert tokenizer_findings.falls("oat")().status == claims.DIFFERS
    assert "it falls on MetaWorld" in tokenizer_findings.falls("oat")().ours
    assert tokenizer_findings.tracks().status == claims.DIFFERS
    assert "1.30 on PushT (10 steps)" in tokenizer_findings.tracks().ours
    assert tokenizer_findings.ordered().status == claims.DIFFERS


def test_prefixes_of_every_kind_decide_on_its_order(results: Path) -> None:
    falling = [3.0, 2.0, 1.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    found = tokenizer_findings.ordered()
    assert found.ours.endswith("fall with every budget on MetaWorld (10 steps)")
    assert (
        found.status
        == f"{claims.MISSING} (prefixes of `fast` and `bin` and `quest` were not decoded)"
    )

    def status(**holds: bool) -> str:
        marks = {kind: {"ordered": {"holds": so, "evidence": ""}} for kind, so in holds.items()}
        record.write_result("decodability", seed=0, settings={}, results=marks)
        return tokenizer_findings.ordered().status

    assert status(fast=True, bin=False, quest=False) == claims.AGREES
    assert tokenizer_findings.ordered().source == "tokenizer_rate_distortion, decodability"
    assert status(fast=True, bin=False).startswith(f"{claims.MISSING} (prefixes of `quest` were")
    assert status(fast=False, bin=False) == claims.DIFFERS, "one is enough"


def test_errors_of_other_steps_do_not_track(results: Path) -> None:
    falling = [3.0, 2.0, 1.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    stored = record.read_results("tokenizer_rate_distortion")
    stored["metaworld"]["oat"]["steps"] = 900
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=stored)
    assert tokenizer_findings.tracks().status.endswith("MetaWorld (900 and 10 steps))")
    stored["pusht"] = {kind: {**row, "steps": 10} for kind, row in stored["metaworld"].items()}
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=stored)
    assert tokenizer_findings.tracks().status == claims.AGREES, "PushT decides alone"
    assert tokenizer_findings.tracks().ours.endswith("differ: MetaWorld (900 and 10 steps)")


def test_kinds_are_compact_on_every_dataset(results: Path) -> None:
    def save(**tokens: float) -> None:
        rows = {
            data: {
                kind: {"steps": 10, "budgets": [{"mse": 1.0, "tokens": count}]}
                for kind, count in {
                    **dict.fromkeys(tokenizer_findings.KINDS, 16),
                    "bin": 64,
                }.items()
            }
            for data in ("metaworld", "pusht")
        }
        for data, count in tokens.items():
            rows[data]["fast, fitted"]["budgets"][0]["tokens"] = count
        record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=rows)

    save()
    assert tokenizer_findings.compact().status == claims.AGREES
    assert "tokens on MetaWorld; `bin` 64," in tokenizer_findings.compact().ours
    save(pusht=33.0)
    assert tokenizer_findings.compact().status == claims.DIFFERS


def test_one_sequence_that_does_not_decode_is_enough(results: Path) -> None:
    def status() -> str:
        settings = {"preset": "tiny", "steps": 4}
        record.write_result("decodability", seed=0, settings=settings, results=rows)
        return tokenizer_findings.decodes().status

    rows = {kind: {"tried": 9, "decoded": 9} for kind in PAPER_KINDS}
    rows["fast"] = {"tried": 9, "decoded": 8}
    assert status() == claims.AGREES
    rows["oat"]["decoded"] = 8
    assert status() == claims.DIFFERS
    del rows["oat"]
    assert status() == f"{claims.MISSING} (not all kinds were tried)"
