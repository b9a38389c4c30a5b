"""`oatkit policy eval`: in a fast simulator, and as a user runs it in MetaWorld and PushT."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import oatkit
from oatkit import cli
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.errors import ArtifactError, MissingExtraError
from oatkit.evaluation.episodes import Evaluation, Job
from oatkit.jobs.policy_evaluation import RECORD, EvalPolicy, draw, eval_policy
from oatkit.policies import LightPolicy
from oatkit.storage.records import record_from_json
from oatkit.types import EpisodeResult, PolicyEvaluation
from tests.evaluation.plane import HORIZON, PLANE, TASKS, dying_once, sleeping_once
from tests.policies import tiny

Eval = Callable[..., PolicyEvaluation]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained, for the plane."""
    folder = tmp_path_factory.mktemp("plane")
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    for index, task in enumerate(TASKS.values()):
        columns = {
            "action": rng.uniform(-1, 1, (20, 2)),
            "observation.state": rng.uniform(0, 2, (20, 4)),
        }
        np.savez(folder / f"data/{index}.npz", **columns, task=task)
    dataset = oatkit.open_dataset(folder / "data", cache_dir=folder / "cache")
    tokenizer = tiny.make_tokenizer("klt", dataset, horizon=HORIZON, action_dim=2, num_tokens=4)
    torch.manual_seed(0)
    made = LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset)
    keys = ["observation.state", "observation.environment_state"]
    made.extras = {"data": {"fps": 10.0, "state_keys": keys}}
    return made.save_pretrained(folder / "policy")


@pytest.fixture
def run(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Eval:
    monkeypatch.setitem(SIMULATORS, "plane", PLANE)
    # drawing takes longer than everything else
    monkeypatch.setattr("oatkit.jobs.policy_evaluation._write_report", lambda *_: None)

    def run(name: str = "a", **changed: Any) -> PolicyEvaluation:
        wanted = {"env": "plane", "tasks": ("near", "far"), "episodes": 3, "budgets": (1, 4)}
        wanted |= {"policy": policy, "out": tmp_path / name, "workers": 1, **changed}
        return eval_policy(EvalPolicy(**wanted), Console(quiet=True))

    return run


def outcomes(record: PolicyEvaluation) -> list[dict[str, Any]]:
    """All of a record's episodes but their times."""
    return [asdict(replace(e, latency_ms=0.0)) for e in record.episodes]


def read(path: Path) -> PolicyEvaluation:
    return record_from_json(PolicyEvaluation, json.loads(path.read_text()))


def test_the_record_says_what_was_done(run: Eval, tmp_path: Path) -> None:
    record = run()
    assert read(tmp_path / "a" / RECORD) == record
    assert record.schema == "oatkit/policy-evaluation"
    wanted = {"env": "plane", "execute": HORIZON // 2, "seed": 0, "horizon": HORIZON, "history": 2}
    assert {k: record.settings[k] for k in wanted} == wanted
    assert record.settings["packages"] == {"numpy": np.__version__}
    assert {"python", "oatkit", "torch"} <= set(record.versions)
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


def test_an_interrupted_evaluation_goes_on(
    run: Eval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ran = Evaluation.run, []

    def stopped(self: Evaluation, jobs: list[Job]) -> Iterator[EpisodeResult]:
        for number, result in enumerate(real(self, jobs)):
            if number == 5:
                raise KeyboardInterrupt
            yield result

    def counted(self: Evaluation, jobs: list[Job]) -> Iterator[EpisodeResult]:
        ran.extend(jobs)
        return real(self, jobs)

    monkeypatch.setattr(Evaluation, "run", stopped)
    with pytest.raises(KeyboardInterrupt, match="the same command again continues"):
        run("parts")
    assert len(read(tmp_path / "parts" / RECORD).episodes) == 5
    monkeypatch.setattr(Evaluation, "run", counted)
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
    with pytest.raises(ArtifactError, match=r"another seed \(was 0, now 1\)"):
        run(seed=1)
    assert read(tmp_path / "a" / RECORD) == replace(more, seconds=more.seconds)


def test_another_schedule_is_forced_on_the_policy(run: Eval) -> None:
    own = run(budgets=(4,))
    assert own.settings["endpoints"] is None
    with pytest.raises(ArtifactError, match="made with another endpoints"):
        run(budgets=(4,), endpoints=(1, 2, 4))
    with pytest.warns(UserWarning, match="expect worse chunks"):
        forced = run("b", budgets=(4,), endpoints=(1, 2, 4))
    assert {e.calls for e in own.episodes} == {4}
    assert {e.calls for e in forced.episodes} == {3}
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, klt has 4"):
        run("c", endpoints=(1, 2, 4, 8))


def test_another_policy_is_another_evaluation(run: Eval, policy: Path, tmp_path: Path) -> None:
    run()
    other = oatkit.load_policy(policy)
    with torch.no_grad():
        next(iter(other.net.parameters())).add_(0.1)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(ArtifactError, match="made with another digest"):
        run(policy=tmp_path / "other")
    record = run("b", policy=tmp_path / "other", against=(tmp_path / "a" / RECORD,))
    pair = record.comparisons[-1]
    assert (pair.first, pair.second) == (f"{policy} at 4", f"{tmp_path / 'other'} at 4")
    assert pair.episodes == 6
    with pytest.raises(ValueError, match="has no episode of the same seed"):
        run("c", seed=1, against=(tmp_path / "a" / RECORD,))
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(
        ArtifactError,
        match=r"no\.json has no schema and version",
    ):
        run("c", against=(tmp_path / "no.json",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budgets": (5,)}, r"budget 5 is outside 1 \.\. 4"),
        ({"budgets": (0,)}, "budget 0 is outside"),
        ({"budgets": (1, 1)}, "expected each once"),
        ({"budgets": ("auto",)}, "budget 'auto' has no thresholds"),
        ({"execute": 9}, "execute is 9, expected 1 to 8"),
        ({"execute": 0}, "execute is 0, expected 1 to 8"),
        ({"tasks": ("nearr",)}, "unknown plane task 'nearr'; known, closest first: near"),
        ({"tasks": ("near", "near")}, "expected each once"),
        ({"episodes": 0}, "episodes is 0, expected 1 or more"),
        ({"workers": 0}, "workers is 0, expected 1 or more"),
        ({"timeout_s": 0.0}, "timeout_s is 0, expected more than 0"),
        ({"videos": -1}, "videos is -1, expected 0 or more"),
        ({"shadows": False}, "--no-shadows is for policies that read images of metaworld"),
        ({"seed": -1}, "the seed is -1, expected 0 or more"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"state_key": ("observation.state",)}, "trained on with --state-key"),
        ({"env": "metaworld", "tasks": ()}, "is for 2 action dimensions, metaworld has 4"),
        ({"env": "pushed"}, "unknown simulator 'pushed'; known, closest first: pusht"),
    ],
)
def test_wrong_options(run: Eval, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**change)
    assert not (tmp_path / "a").exists()


def test_a_worker_that_died_is_in_the_record(
    run: Eval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("b")
    dying = replace(PLANE, make=dying_once(tmp_path / "died"))
    monkeypatch.setitem(SIMULATORS, "plane", dying)
    record = run()
    assert record.worker_deaths == 1
    repeated = [e for e in record.episodes if e.repeats]
    assert len(repeated) == 4  # all that the worker had under way
    shown = draw(record).plain
    assert "1 simulator processes died, 0 hung and were killed; 4 episodes were repeated" in shown
    kept = replace(record, episodes=tuple(replace(e, repeats=0) for e in record.episodes))
    assert outcomes(kept) == outcomes(expected)


def test_a_worker_that_hung_is_in_the_record(
    run: Eval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    run("b", episodes=1, budgets=(4,))
    patience_s = 1 + 3 * (time.monotonic() - began)  # the machine may be busy
    sleeping = replace(PLANE, make=sleeping_once(tmp_path / "slept"))
    monkeypatch.setitem(SIMULATORS, "plane", sleeping)
    record = run(episodes=1, budgets=(4,), timeout_s=patience_s)
    assert (record.worker_deaths, len(record.episodes)) == (0, 2)
    assert record.worker_hangs >= 1
    assert f"{record.worker_hangs} hung and were killed; 2 episodes" in draw(record).plain
    assert read(tmp_path / "a" / RECORD) == record


def test_a_missing_package_is_named(run: Eval, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = replace(PLANE, packages=("no-such-package",), extra="pusht")
    monkeypatch.setitem(SIMULATORS, "plane", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[pusht\]'"):
        run()


def test_videos_and_the_tasks_of_the_policy(run: Eval, tmp_path: Path) -> None:
    record = run(tasks=(), budgets=(), episodes=2, videos=1)
    assert {e.task for e in record.episodes} == set(TASKS)
    assert sorted(path.name for path in (tmp_path / "a/videos").iterdir()) == [
        f"{task}-budget-4-000.mp4" for task in sorted(TASKS)
    ]
    assert {(v.task, v.budget, v.episode) for v in record.videos} == {(t, 4, 0) for t in TASKS}
    assert all((tmp_path / "a" / v.path).exists() for v in record.videos)


def train(data: Path, folder: Path, kind: str, horizon: int, *flags: str) -> None:
    """A tokenizer and a policy, trained for seconds."""
    where = ("--data", str(data), "--preset", "tiny")
    sizes = ("--kind", kind, "--horizon", str(horizon), "--num-tokens", "4")
    assert cli.main(["tokenizer", "train", *where, *sizes, "--out", str(folder / "t")]) == 0
    more = ("--tokenizer", str(folder / "t"), "--out", str(folder / "p"), *flags)
    assert cli.main(["policy", "train", *where, *more]) == 0


def test_from_demonstrations_to_success_in_metaworld(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    data, out = tmp_path / "data", tmp_path / "e"
    few = ("--tasks", "drawer-close", "--episodes", "8", "--workers", "1")
    assert cli.main(["data", "make", "metaworld", *few, "--out", str(data)]) == 0
    state = ("--state-key", "observation.environment_state", "--steps", "200")
    train(data, tmp_path, "klt", 32, *state)
    few = ("--tasks", "drawer-close-v3", "--episodes", "2", "--budgets", "4", "auto")
    where = ("--env", "metaworld", "--out", str(out))
    assert cli.main(["policy", "eval", str(tmp_path / "p"), *where, *few]) == 0
    shown = capsys.readouterr().out
    assert f"wrote {out / RECORD}" in shown
    assert f"open {out / 'report.html'}" in shown
    assert "<h1>A policy in the simulator</h1>" in (out / "report.html").read_text()
    assert "16 of 32 steps executed" in shown
    record = read(out / RECORD)
    assert {e.task for e in record.episodes} == {"drawer-close"}
    assert {e.seed for e in record.episodes} == {1, 3}
    assert [b.budget for b in record.budgets] == [4, None]
    assert record.settings["state_keys"] == ["observation.environment_state"]
    assert sum(e.is_success for e in record.episodes) >= 1


def test_pusht(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gym_pusht", reason="needs the extra pusht", exc_type=ImportError)
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for index in range(5):
        state = rng.uniform(50, 450, (30, 5))
        columns = {
            "action": state[:, :2] + rng.normal(size=(30, 2)),
            "observation.state": state[:, :2],
            "observation.environment_state": state[:, 2:],
        }
        np.savez(tmp_path / f"data/{index}.npz", **columns, task="push", fps=10)
    state_keys = ("observation.state", "observation.environment_state")
    train(tmp_path / "data", tmp_path, "klt", 16, "--steps", "5", "--state-key", *state_keys)
    few = ("--env", "pusht", "--episodes", "2", "--out", str(tmp_path / "e"))
    assert cli.main(["policy", "eval", str(tmp_path / "p"), *few]) == 0
    assert "score" in capsys.readouterr().out
    record = read(tmp_path / "e" / RECORD)
    assert len(record.episodes) == 2
    for e in record.episodes:
        assert e.score is not None
        assert 0 <= e.score <= 1
