"""Timing of jobs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import oatkit
from benchmarks.timing import median_ms_in_turns, seconds, trained_seconds
from tests.nn.pretended_devices import AsynchronousClock
from tests.policies import tiny


def test_jobs_take_turns_and_the_first_rounds_do_not_count() -> None:
    ran: list[str] = []

    def slow_at_first() -> None:
        ran.append("a")
        time.sleep(0.05 if len(ran) < 3 else 0.001)

    found = median_ms_in_turns({"a": slow_at_first, "b": lambda: ran.append("b")}, 3, warm_up=1)
    assert ran == ["a", "b"] * 4
    assert 1 <= found["a"] < 40
    assert found["b"] < found["a"]


def test_a_training_took_the_time_of_its_log_and_a_fit_none(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"step": 10, "samples_per_s": 12.0}) + "\n")
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    tokenizer = tiny.make_tokenizer("oat", dataset)
    assert trained_seconds(tmp_path, tokenizer) is None
    tokenizer.extras["train"] = {"batch_size": 4}
    assert trained_seconds(tmp_path, tokenizer) == 3.3


def test_seconds_are_those_of_one_run() -> None:
    assert 0.01 <= seconds(lambda: time.sleep(0.01)) < 1


def test_a_run_ends_when_the_device_has_done_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a job returns before its work is done."""
    clock = AsynchronousClock(monkeypatch)
    clock.launch(5.0)  # of somebody before
    assert seconds(lambda: clock.launch(0.25)) == 0.25
