"""Times of all policies in turns, and the drawing of success against them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import control, control_drawing, control_times, report_control
from benchmarks.control_drawing import UNTIMED, VARIANT, left_out, measured, success_and_time
from benchmarks.control_times import Options, ours, time_in_turns


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


def test_all_policies_answer_in_turns_and_the_first_answers_do_not_count() -> None:
    asked: list[tuple[str, str]] = []

    def query(name: str, *times: float) -> Any:
        left = iter(times)

        def answer(observation: Any) -> float:
            asked.append((name, observation["task"]))
            return next(left)

        return answer

    queries = {
        ("oat", 8): query("oat", 99, 1, 5, 3, 7, 7, 7),
        ("act", None): query("act", *[2] * 7),
    }
    found = time_in_turns(queries, [{"task": "near"}, {"task": "far"}], repeats=3)
    assert found == {("oat", 8): (3 + 7) / 2, ("act", None): 2}
    assert asked[:2] == [("oat", "near"), ("act", "near")]
    assert asked[2:8] == [("oat", "near"), ("act", "near")] * 3
    assert asked[8:] == [("oat", "far"), ("act", "far")] * 3


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
    assert ">ACT<" in drawn
    assert ">quest<" not in drawn


def test_the_page_says_which_policies_are_not_drawn_and_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = [{"budget": 8, "success": {"successes": 5, "episodes": 10}}]
    rows = ("oat", "oat, as first", "klt", "quest")
    cells = {row: {"row": row, "rule": "8", "budgets": results} for row in rows}
    timed = {
        "oat": {"ms": {"8": 4.0}, "reference_ms": 4.0},
        "oat, as first": {"ms": {"8": 5.0}, "reference_ms": 8.0},
    }
    stored = {"control": {"cells": cells}, "neighbors": {"rows": {}}, "control_times": timed}
    monkeypatch.setattr(control_drawing, "read_results", stored.__getitem__)
    assert left_out() == {UNTIMED: ["klt", "quest"], VARIANT: ["oat, as first"]}
    settings = {"observations": 2, "repeats": 2, "threads": 1}
    page = " ".join(report_control.control_times({"settings": settings, "results": timed}).split())
    assert f"acted under that rule: `quest`; `klt`; {UNTIMED}." in page
    assert f"acted under that rule: `oat, as first`; {VARIANT}." in page
    assert "another run: `oat, as first`. There `oat` with all tokens took 8.00 ms and not" in page
    assert "| `oat, as first` | 2.50 |" in page
