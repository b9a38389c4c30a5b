"""Times of all policies in turns, and the drawing of success against them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import control, control_drawing, control_times, record, report_control
from benchmarks.control_drawing import UNTIMED, VARIANT, left_out, measured, success_and_time
from benchmarks.control_times import Options, ours, time_in_turns
from oatkit.types import Budget


def test_of_policies_that_are_not_there_only_what_takes_as_long_with_any_weights_is_timed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = control.policy_folder(control.Options(out=tmp_path), "oat-pow2", 1)
    there.mkdir(parents=True)
    (there / "config.json").touch()
    heads = {"light-flow": ("flow", True), "fast, relaxed, 2500 steps": ("tokens", False)}
    steps: dict[str, int] = {}

    def train(options: control.Options, data: Path, name: str, seed: int) -> Path:
        steps[name] = control.policy_steps(options, control.ROWS[name])
        return Path(name)

    def load(folder: Path) -> Any:
        head, is_fixed_length = heads.get(folder.name, ("tokens", True))
        codes = SimpleNamespace(is_fixed_length=is_fixed_length)
        policy = SimpleNamespace(head=head, tokenizer=codes, budgets=(1, 8), auto=object())
        policy.choose_decoder = lambda head, decoding: policy
        return policy

    monkeypatch.setattr(control, "trained", train)
    monkeypatch.setattr(control_times, "load_policy", load)
    rows = ("oat-pow2", "fast, relaxed, 2500 steps", "light-flow")  # `oat` is timed in every run
    found = [asked for asked, _ in ours(Options(rows=rows, policies=tmp_path), Path("data"))]
    timed = [("oat", 1), ("oat", 8), ("oat-pow2", 1), ("oat-pow2", 8), ("oat-pow2", "auto")]
    assert found == [*timed, ("light-flow", 1), ("light-flow", 8)]
    assert steps == dict.fromkeys(("oat", "fast, relaxed, 2500 steps", "light-flow"), 4)


def test_every_round_has_its_own_order_and_an_answer_before_the_one_that_counts() -> None:
    asked: list[tuple[str, str]] = []

    def query(name: str, *times: float) -> Any:
        left = iter(times)

        def answer(observation: Any) -> float:
            asked.append((name, observation["task"]))
            return next(left)

        return answer

    names = ("oat", "oat-pow2", "act", "diffusion")
    untimed = 99.0
    times = [t for ms in (1, 5, 3, 7, 7, 7) for t in (untimed, ms)]
    queries: dict[tuple[str, Budget], Any] = {(name, None): query(name, *times) for name in names}
    found = time_in_turns(queries, [{"task": "near"}, {"task": "far"}], repeats=3)
    assert found == dict.fromkeys(queries, (3 + 7) / 2)
    assert asked[::2] == asked[1::2], "a policy answers twice, the first time untimed"
    tasks = [task for _, task in asked]
    assert tasks == ["near"] * 24 + ["far"] * 24
    policies = [name for name, _ in asked[::2]]
    rounds = [tuple(policies[start : start + 4]) for start in range(0, 24, 4)]
    assert all(sorted(order) == sorted(names) for order in rounds)
    assert len(set(rounds)) > 1
    before = {(policies[i - 1], name) for i, name in enumerate(policies) if i and name == "oat"}
    assert len(before) > 1, "no policy always follows the same other one"
    again, asked = list(asked), []
    queries = {(name, None): query(name, *times) for name in names}
    time_in_turns(queries, [{"task": "near"}, {"task": "far"}], repeats=3)
    assert asked == again, "the orders are the same in every run"


def test_a_run_says_that_its_orders_are_drawn_and_leaves_other_rows_as_they_are(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {"klt": {"ms": {"8": 5.0}, "reference_ms": 4.0, "is_shuffled": False}}
    record.write_result("control_times", seed=0, settings={}, results=older)
    timed = {("oat", 8): lambda observation: 2.0, ("oat", "auto"): lambda observation: 1.5}
    monkeypatch.setattr(control_times, "ours", lambda *_: timed.items())
    monkeypatch.setattr(control_times, "theirs", lambda *_: ())
    monkeypatch.setattr(control_times, "observations", lambda *_: [{}])
    monkeypatch.setattr(control_times, "open_with_full_state", lambda _: None)
    control_times.main(Options(rows=("oat",), kinds=(), data=Path("data")))
    own = {"ms": {"8": 2.0, "auto": 1.5}, "reference_ms": 2.0, "is_shuffled": True}
    assert record.read_results("control_times") == {**older, "oat": own}


def test_the_drawing_has_what_was_both_solved_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def rate(successes: int) -> dict[str, Any]:
        return {"successes": successes, "episodes": 10}

    def cell(row: str, rule: str, **budgets: int) -> dict[str, Any]:
        results = [{"budget": b.strip("_"), "success": rate(n)} for b, n in budgets.items()]
        return {"row": row, "rule": rule, "budgets": results}

    cells = [
        cell("oat", "8", _1=4, _8=6),
        cell("oat", "8", _1=6, _8=8),
        cell("oat", "half", _8=0),
        cell("quest", "8", _16=9),
    ]
    stored = {
        "control": {"cells": {str(place): found for place, found in enumerate(cells)}},
        "neighbors": {"rows": {"a": {"kind": "act", "rules": {"8 steps": {"success": rate(7)}}}}},
        "control_times": {
            "oat": {"ms": {"1": 2.0, "8": 4.0}, "reference_ms": 4.0},
            "act": {"ms": {"whole": 6.0}, "reference_ms": 8.0},
        },
    }
    monkeypatch.setattr(control_drawing, "read_results", stored.__getitem__)
    found = {name: [(p.ms, p.success.rate) for p in curve] for name, curve in measured().items()}
    assert found == {"oat": [(2.0, 0.5), (4.0, 0.7)], "act": [(3.0, 0.7)]}
    drawn = success_and_time()
    assert drawn.count("<circle") == 3
    assert ">oat<" in drawn
    assert ">ACT (ms estimated)<" in drawn
    assert ">quest<" not in drawn


def test_the_page_says_which_policies_are_not_drawn_and_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = [{"budget": 8, "success": {"successes": 5, "episodes": 10}}]
    rows = ("oat", "oat, as first", "klt", "quest")
    cells = {row: {"row": row, "rule": "8", "budgets": results} for row in rows}
    timed = {
        "oat": {"ms": {"8": 4.0}, "reference_ms": 4.0, "is_shuffled": True},
        "oat, as first": {"ms": {"8": 5.0}, "reference_ms": 8.0, "is_shuffled": True},
    }
    stored = {"control": {"cells": cells}, "neighbors": {"rows": {}}, "control_times": timed}
    monkeypatch.setattr(control_drawing, "read_results", stored.__getitem__)
    assert left_out() == {UNTIMED: ["klt", "quest"], VARIANT: ["oat, as first"]}
    settings = {"observations": 2, "repeats": 2, "threads": 1}
    page = " ".join(report_control.control_times({"settings": settings, "results": timed}).split())
    assert f"acted under that rule: `quest`; `klt`; {UNTIMED}." in page
    assert f"acted under that rule: `oat, as first`; {VARIANT}." in page
    assert "and in the drawing: `oat, as first`. In the run that timed them `oat` with all" in page
    assert (
        "took 8.00 ms and not 4.00, and what is shown is what they took there, multiplied" in page
    )
    assert "| `oat, as first`, estimated | 2.50 |" in page


@pytest.mark.parametrize("is_shuffled", [(True, True), (True, False), (False, False)])
def test_the_page_says_which_times_are_of_a_fixed_order(
    monkeypatch: pytest.MonkeyPatch, is_shuffled: tuple[bool, bool]
) -> None:
    timed = {
        name: {"ms": {"1": 5.0, "2": 4.0}, "reference_ms": 4.0, "is_shuffled": each}
        for name, each in zip(("oat", "klt"), is_shuffled, strict=True)
    }
    stored = {"control": {"cells": {}}, "neighbors": {"rows": {}}, "control_times": timed}
    monkeypatch.setattr(control_drawing, "read_results", stored.__getitem__)
    settings = {"observations": 2, "repeats": 2, "threads": 1}
    page = " ".join(report_control.control_times({"settings": settings, "results": timed}).split())
    assert ("drawn at random with a seed" in page) == any(is_shuffled)
    fixed = [name for name, row in timed.items() if not row["is_shuffled"]]
    names = "; ".join(f"`{name}`" for name in fixed)
    assert (f"every round still had the same order: {names}." in page) == bool(fixed)
    slow = "`oat` with 1 token, 5.00 ms, was always asked right after Diffusion Policy"
    assert (slow in page) == ("oat" in fixed)
