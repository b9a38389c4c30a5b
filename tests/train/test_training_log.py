"""The log: parts of the loss, trackers, and what a killed run left."""

from __future__ import annotations

import itertools
import json
import re
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oatkit.errors import TrainingError
from oatkit.train import read_log, train, training_seconds
from oatkit.train.loop import sample_indices
from tests.train.regression import (
    CONFIG,
    Regression,
    assert_same_logs,
    trained,
)


def test_parts_of_the_loss_are_logged(tmp_path: Path) -> None:
    """A part that has no value in an interval is left out."""
    job = Regression()
    train(job, replace(CONFIG, trackers=("tensorboard",)), tmp_path, show_progress=False)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        assert list(row)[5:8] == ["error", "positive", "negative"]
        assert "never" not in row
        assert row["error"] == pytest.approx(row["loss"])
        steps = (2 * number, 2 * number + 1)
        indices = np.concatenate([sample_indices(0, step, 16, 100) for step in steps])
        share = float((job.batch(indices)[0][:, 0] > 0).float().mean())
        mean = share * row["positive"] + (1 - share) * row["negative"]
        assert mean == pytest.approx(row["loss"])
    events = next((tmp_path / "oatkit").rglob("*tfevents*")).read_bytes()
    assert all(name in events for name in (b"loss", b"positive", b"negative"))


def test_parts_of_a_batch_do_not_change_the_parts_of_the_loss(tmp_path: Path) -> None:
    train(Regression(), CONFIG, tmp_path / "whole", show_progress=False)
    train(Regression(), replace(CONFIG, accumulate=4), tmp_path / "parts", show_progress=False)
    assert_same_logs(tmp_path / "whole", tmp_path / "parts")


def test_the_progress_line_shows_the_parts(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(Regression(), CONFIG, tmp_path)
    line = capsys.readouterr().err
    assert re.search(r"8/8 steps.*loss [\d.]+ .*samples/s", line)
    assert "error" in line


def test_waiting_for_data_is_logged_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on ten seconds while a step waits for its samples."""
    clock = types.SimpleNamespace(perf_counter=itertools.count(0, 10).__next__)
    monkeypatch.setattr("oatkit.train.loop.time", clock)
    train(Regression(), CONFIG, tmp_path)
    for row in read_log(tmp_path):
        seconds = 2 * CONFIG.batch_size / row["samples_per_s"]
        assert row["waiting_share"] * seconds == pytest.approx(20, rel=0.1)
    note = "% of the time is spent waiting for data: more worker processes (--workers, now 0)"
    assert capsys.readouterr().err.count(note) == 1


def test_trackers_log_and_a_missing_one_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path, replace(CONFIG, trackers=("tensorboard",)))
    assert list((tmp_path / "oatkit").rglob("*tfevents*"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TrainingError, match="wandb is not installed: pip install wandb"):
        trained(tmp_path / "again", replace(CONFIG, trackers=("wandb",)))


def test_rows_past_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    """A killed run may have logged steps that it did not save, the last row only in part."""
    trained(tmp_path)
    log = (tmp_path / "train.jsonl").read_text()
    later = json.dumps({"step": 10, "loss": 1.0})
    (tmp_path / "train.jsonl").write_text(log + later + "\n" + later[:9])
    trained(tmp_path)
    assert (tmp_path / "train.jsonl").read_text() == log


def test_seconds_of_a_run_without_its_pauses(tmp_path: Path) -> None:
    rows = [{"step": 10, "samples_per_s": 20.0}, {"step": 14, "samples_per_s": 8.0}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert training_seconds(read_log(tmp_path), batch_size=4) == 10 * 4 / 20 + 4 * 4 / 8


def test_seconds_of_a_run_on_a_machine_that_slept(tmp_path: Path) -> None:
    speeds = [20.0, 20.0, 0.01, 20.0, 4.0]  # the last was beside other work
    rows = [{"step": 10 * (i + 1), "samples_per_s": speed} for i, speed in enumerate(speeds)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert training_seconds(read_log(tmp_path), batch_size=4) == 4 * 2 + 10
