"""What a record of version 1 says is said by the record it becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oatkit.storage.records import read_record, read_records, record_from_json
from oatkit.types import (
    DemoRecord,
    PolicyEvaluation,
    PolicyMeasurement,
    PolicySweep,
    Reproduction,
    Sampling,
)

FOLDER = Path(__file__).parent / "records_v1"


PLAIN = {"blend": None, "delay": 0, "draws": 1}


def old(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def test_null_budgets_of_an_evaluation_become_auto() -> None:
    before, now = (
        old("policy-evaluation"),
        read_record(FOLDER / "policy-evaluation.json", PolicyEvaluation),
    )
    for part in ("episodes", "budgets", "videos"):
        budgets = [value["budget"] for value in before[part]]
        assert None in budgets
        assert [found.budget for found in getattr(now, part)] == [
            "auto" if budget is None else budget for budget in budgets
        ]
    assert now.latencies_ms == before["latencies_ms"]
    assert {b.budget: b.success.rate for b in now.budgets} == {
        "auto" if b["budget"] is None else b["budget"]: b["success"]["rate"]
        for b in before["budgets"]
    }


def test_the_sampling_rules_of_an_evaluation_are_one_object() -> None:
    before, now = (
        old("policy-evaluation"),
        read_record(FOLDER / "policy-evaluation.json", PolicyEvaluation),
    )
    sampling = Sampling(**now.settings["sampling"])
    assert sampling == Sampling(temperature=1.0, top_k=10, seed=0)
    rules = ("temperature", "top_k", "seed")
    kept = {k: v for k, v in before["settings"].items() if k not in rules}
    assert {k: v for k, v in now.settings.items() if k != "sampling"} == kept | PLAIN


def test_an_evaluation_from_before_followed_the_latest_chunk_at_once() -> None:
    path = FOLDER.parent / "records_v4/policy-evaluation.json"
    before = json.loads(path.read_text())
    assert before["version"] == 4
    now = read_record(path, PolicyEvaluation)
    assert now.settings == before["settings"] | PLAIN
    assert {e.seam_jump for e in now.episodes} == {b.steps_per_query for b in now.budgets} == {None}


def test_the_steps_of_a_demo_become_a_setting() -> None:
    before = old("demo")
    now = read_record(FOLDER / "demo.json", DemoRecord)
    assert now.settings == before["settings"] | {"policy_steps": before["policy_steps"]}


def test_the_budget_of_a_flow_expert_becomes_its_euler_steps() -> None:
    before = json.loads((FOLDER.parent / "records_v3/policy-evaluation.json").read_text())
    assert before["version"] == 3
    settings = before["settings"] | {"head": "flow"}
    acted = {"budget": 16, "calls": 10.0}
    old_flow = before | {
        "settings": settings,
        "episodes": [before["episodes"][0] | acted],
        "budgets": [before["budgets"][0] | acted],
        "videos": [],
        "latencies_ms": {"16": 3.5},
    }
    now = record_from_json(PolicyEvaluation, old_flow)
    assert now.episodes[0].budget == now.budgets[0].budget == 10
    assert now.latencies_ms == {"10": 3.5}
    same = record_from_json(PolicyEvaluation, before)
    assert [e.budget for e in same.episodes] == [e["budget"] for e in before["episodes"]]


def test_the_measurement_of_a_policy_that_stops_by_itself() -> None:
    (now,) = read_records(FOLDER / "policy-measurement.json", PolicyMeasurement)
    (before,) = old("policy-measurement")
    assert now.auto is not None
    assert (before["auto"]["budget"], now.auto.budget) == (None, "auto")
    assert now.auto.mse == before["auto"]["mse"]


def test_rows_of_a_sweep_keep_their_budgets() -> None:
    now = read_record(FOLDER / "policy-sweep.json", PolicySweep)
    assert [row.result.budget for row in now.rows] == [4]


def test_numbers_of_a_reproduction_have_their_own_seed_and_episodes() -> None:
    before = old("reproduction")
    before["settings"] |= {"seed": 3, "episodes": 50, "temperature": 0.0}
    before["numbers"][1] |= {"low": None, "high": None}
    now = record_from_json(Reproduction, before)
    assert now.settings == {"scale": "tiny"}
    assert [(n.seed, n.episodes) for n in now.numbers] == [(3, 50), (3, None)]
