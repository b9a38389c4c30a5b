"""Evaluations in a fast simulator: what the record says, and that it goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.commands.policy_eval import render_evaluation
from oatkit.errors import ArtifactError, MissingExtraError, RemoteError
from oatkit.evaluation import remote_policy
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan
from oatkit.jobs.policy_evaluation import RECORD
from oatkit.serve import ServeConfig, serving
from oatkit.types import EpisodeResult, Sampling, Schedule
from tests.data.rerun_reading import read_recording
from tests.evaluation.plane import HORIZON, PLANE, TASKS, dying_once, sleeping_once
from tests.jobs.plane_evaluations import Eval, outcomes, read


def test_the_record_says_what_was_done(run: Eval, tmp_path: Path) -> None:
    record = run()
    assert read(tmp_path / "a" / RECORD) == record
    assert record.schema == "oatkit/policy-evaluation"
    wanted = {"env": "plane", "execute": HORIZON // 2, "horizon": HORIZON, "history": 2}
    assert {k: record.settings[k] for k in wanted} == wanted
    assert record.settings["sampling"]["seed"] == 0
    assert record.settings["packages"] == {"numpy": np.__version__}
    assert {"python", "oatkit", "torch"} <= set(record.versions)
    assert record.device == "the CPU"
    assert [(e.budget, e.task, e.episode) for e in record.episodes] == [
        (budget, task, episode)
        for budget in (1, 4)
        for task in ("far", "near")
        for episode in range(3)
    ]
    assert [b.budget for b in record.budgets] == [1, 4]
    for b in record.budgets:
        assert (b.success.episodes, len(b.tasks), b.tokens) == (6, 2, b.budget)
        assert b.success.low <= b.success.rate <= b.success.high
        assert b.latency_ms is not None
        assert b.latency_ms > 0
    (pair,) = record.comparisons
    assert (pair.first, pair.second, pair.episodes) == ("1", "4", 6)
    assert (record.worker_deaths, sum(e.repeats for e in record.episodes)) == (0, 0)


def test_committing_without_a_delay_is_refused(run: Eval) -> None:
    """Nothing is executed before such a chunk acts."""
    with pytest.raises(ValueError, match="commit is for chunks that act late, and delay is 0"):
        run("a", commit=True)


@pytest.mark.parametrize("steps", [{}, {"execute": 2}])
def test_rules_that_change_nothing_leave_the_record_as_it_is(
    run: Eval, tmp_path: Path, steps: dict[str, int]
) -> None:
    """Bit for bit; only times differ."""
    run("plain", **steps)
    run("ruled", **steps, blend=None, delay=0, draws=1, commit=False)
    plain, ruled = (
        _without_times(json.loads((tmp_path / name / RECORD).read_text()))
        for name in ("plain", "ruled")
    )
    assert ruled == plain
    run("late", **steps, delay=1)
    late = _without_times(json.loads((tmp_path / "late" / RECORD).read_text()))
    assert late["episodes"] != plain["episodes"], "the comparison sees what a rule changes"


def _without_times(record: Any) -> Any:
    """A record's JSON without what a clock measured."""
    if isinstance(record, list):
        return [_without_times(value) for value in record]
    if not isinstance(record, dict):
        return record
    times = ("seconds", "latency_ms", "latencies_ms")
    return {key: _without_times(value) for key, value in record.items() if key not in times}


def test_a_late_chunk_that_is_told_what_is_executed_meanwhile_is_another(run: Eval) -> None:
    options: dict[str, Any] = {"delay": 2, "execute": 2, "budgets": (4,)}
    plain, told = run("a", **options), run("b", **options, commit=True)
    assert [e.queries for e in told.episodes] == [e.queries for e in plain.episodes]
    assert told.budgets[0].seam_jump != plain.budgets[0].seam_jump
    assert told.budgets[0].latency_ms is not None


def test_an_interrupted_evaluation_goes_on(
    run: Eval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ran = EpisodeRunner.run, []

    def stopped(self: EpisodeRunner, jobs: list[EpisodePlan]) -> Iterator[EpisodeResult]:
        for number, result in enumerate(real(self, jobs)):
            if number == 5:
                raise KeyboardInterrupt
            yield result

    def counted(self: EpisodeRunner, jobs: list[EpisodePlan]) -> Iterator[EpisodeResult]:
        ran.extend(jobs)
        return real(self, jobs)

    monkeypatch.setattr(EpisodeRunner, "run", stopped)
    with pytest.raises(KeyboardInterrupt, match="the same command again continues"):
        run("parts")
    assert len(read(tmp_path / "parts" / RECORD).episodes) == 5
    monkeypatch.setattr(EpisodeRunner, "run", counted)
    parts = run("parts")
    assert len(ran) == 7
    whole = run("whole", workers=2)
    assert outcomes(parts) == outcomes(whole)
    assert parts.comparisons == whole.comparisons
    assert [b.success for b in parts.budgets] == [b.success for b in whole.budgets]
    ran.clear()
    assert run("whole").episodes == whole.episodes
    assert ran == []


def test_more_may_be_asked_for_but_nothing_else(run: Eval, tmp_path: Path) -> None:
    first = run(budgets=(4,), episodes=2)
    more = run(budgets=(1, 4), episodes=3)
    assert set(first.episodes) < set(more.episodes)
    assert outcomes(more) == outcomes(run("b"))
    with pytest.raises(ArtifactError, match=r"made with another execute \(was 4, now 2\)"):
        run(execute=2)
    with pytest.raises(ArtifactError, match=r"another sampling \(was .*'seed': 0.*'seed': 1"):
        run(sampling=Sampling(seed=1))
    assert read(tmp_path / "a" / RECORD) == replace(more, seconds=more.seconds)


def test_another_schedule_is_forced_on_the_policy(run: Eval) -> None:
    own = run(budgets=(4,))
    assert own.settings["endpoints"] is None
    with pytest.raises(ArtifactError, match="made with another endpoints"):
        run(budgets=(4,), schedule=Schedule((1, 2, 4)))
    with pytest.warns(UserWarning, match="expect worse chunks"):
        forced = run("b", budgets=(4,), schedule=Schedule((1, 2, 4)))
    assert {e.calls for e in own.episodes} == {4}
    assert {e.calls for e in forced.episodes} == {3}
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, klt has 4"):
        run("c", schedule=Schedule((1, 2, 4, 8)))


def test_another_policy_is_another_evaluation(
    run: Eval, plane_policy: Path, tmp_path: Path
) -> None:
    run()
    other = oatkit.load_policy(plane_policy)
    with torch.no_grad():
        next(iter(other.net.parameters())).add_(0.1)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(ArtifactError, match="made with another digest"):
        run(policy=tmp_path / "other")
    assert run("b", policy=other).policy == "light"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episodes": 0}, "episodes is 0, expected 1 or more"),
        ({"workers": 0}, "workers is 0, expected 1 or more"),
        ({"timeout_s": 0.0}, "timeout_s is 0, expected more than 0"),
        ({"videos": -1}, "videos is -1, expected 0 or more"),
        ({"videos": 1, "out": None}, r"videos need a folder: name one with --out \(out\)"),
        ({"state_keys": ("observation.state",)}, "trained on with --state-key"),
    ],
)
def test_wrong_options(run: Eval, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**change)
    assert not (tmp_path / "a").exists()


def test_a_worker_that_died_is_in_the_record(run: Eval, tmp_path: Path) -> None:
    expected = run("b")
    record = run(simulator=replace(PLANE, make=dying_once(tmp_path / "died")))
    assert record.worker_deaths == 1
    repeated = [e for e in record.episodes if e.repeats]
    assert len(repeated) == 4  # all that the worker had under way
    shown = render_evaluation(record).plain
    assert "1 simulator processes died, 0 hung and were killed; 4 episodes were repeated" in shown
    kept = replace(record, episodes=tuple(replace(e, repeats=0) for e in record.episodes))
    assert outcomes(kept) == outcomes(expected)


def test_a_worker_that_hung_is_in_the_record(run: Eval, tmp_path: Path) -> None:
    began = time.monotonic()
    run("b", episodes=1, budgets=(4,))
    patience_s = 1 + 3 * (time.monotonic() - began)  # the machine may be busy
    sleeping = replace(PLANE, make=sleeping_once(tmp_path / "slept"))
    record = run(simulator=sleeping, episodes=1, budgets=(4,), timeout_s=patience_s)
    assert (record.worker_deaths, len(record.episodes)) == (0, 2)
    assert record.worker_hangs >= 1
    assert (
        f"{record.worker_hangs} hung and were killed; 2 episodes" in render_evaluation(record).plain
    )
    assert read(tmp_path / "a" / RECORD) == record


def test_a_missing_package_is_named(run: Eval) -> None:
    missing = replace(PLANE, packages=("no-such-package",), extra="pusht")
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[pusht\]'"):
        run(simulator=missing)


def test_videos_and_the_tasks_of_the_policy(run: Eval, tmp_path: Path) -> None:
    record = run(tasks=(), budgets=(), episodes=2, videos=1)
    assert {e.task for e in record.episodes} == set(TASKS)
    assert sorted(path.name for path in (tmp_path / "a/videos").iterdir()) == [
        f"{task}-budget-4-000.mp4" for task in sorted(TASKS)
    ]
    assert {(v.task, v.budget, v.episode) for v in record.videos} == {(t, 4, 0) for t in TASKS}
    assert all((tmp_path / "a" / v.path).exists() for v in record.videos)


def test_it_prints_and_writes_nothing_unless_asked(
    run: Eval, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy object without a folder: the record is all there is."""
    policy = oatkit.load_policy(run().policy)
    before = sorted(tmp_path.rglob("*"))
    record = oatkit.evaluate(
        policy, PLANE, tasks=("near", "far"), episodes=3, budgets=(1, None), workers=1
    )
    assert outcomes(record) == outcomes(read(tmp_path / "a" / RECORD))
    assert record.policy == "light"
    assert sorted(tmp_path.rglob("*")) == before
    assert capsys.readouterr() == ("", "")
    run("b", episodes=1, show_progress=True)
    assert "episodes" in capsys.readouterr().out


def test_a_recording_of_the_episodes(run: Eval, tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    record = run(rerun=tmp_path / "a.rrd", episodes=2)
    found = read_recording(tmp_path / "a.rrd")
    for e in record.episodes:
        name = f"/{e.task}-budget-{e.budget}-{e.episode:03d}"
        assert len(found[f"{name}/action"]["scalars"]) == e.steps
        assert len(found[f"{name}/chunk/predicted"]["strips"]) == e.queries
        ids = [text.split() for _, (text,) in found[f"{name}/tokens"]["text"]]
        assert [len(words) for words in ids] == [e.budget] * e.queries
        assert f"{name}/chunk/budget-1" in found
    with pytest.raises(ValueError, match=r"none to record in .*a.rrd \(--rerun\)"):
        run(rerun=tmp_path / "a.rrd", episodes=2)


def test_a_server_that_dies_leaves_what_is_finished(
    run: Eval, plane_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_policy, "RECONNECT_S", 0.2)
    real = EpisodeRunner.run
    policy = oatkit.load_policy(plane_policy)
    with ExitStack() as server:
        url = server.enter_context(serving(policy, ServeConfig(port=0, max_batch=2)))
        port = int(url.rpartition(":")[2])

        def dying(self: EpisodeRunner, jobs: list[EpisodePlan]) -> Iterator[EpisodeResult]:
            for number, result in enumerate(real(self, jobs)):
                yield result
                if number == 4:
                    server.close()

        monkeypatch.setattr(EpisodeRunner, "run", dying)
        with pytest.raises(RemoteError, match=r"; finished episodes are kept in .*again continues"):
            run("there", policy=url)
    finished = read(tmp_path / "there" / RECORD).episodes
    assert 5 <= len(finished) < 12
    monkeypatch.setattr(EpisodeRunner, "run", real)
    with serving(policy, ServeConfig(port=port, max_batch=2)) as again:
        whole = run("there", policy=again)
    assert set(finished) < set(whole.episodes)
    assert outcomes(whole) == outcomes(run("here"))


def test_a_server_that_dies_before_an_episode_is_finished_leaves_nothing(
    run: Eval, plane_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_: Any) -> Iterator[EpisodeResult]:
        raise RemoteError("the server is gone")
        yield

    monkeypatch.setattr(EpisodeRunner, "run", dying)
    with (
        serving(oatkit.load_policy(plane_policy), ServeConfig(port=0, max_batch=2)) as url,
        pytest.raises(RemoteError, match=r"gone; no episode was finished, .*begins anew"),
    ):
        run("there", policy=url)
    assert not (tmp_path / "there" / RECORD).exists()
