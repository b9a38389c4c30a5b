"""The demonstrations of LIBERO's benchmark, made in a stand-in for its simulator."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from benchmarks import libero
from oatkit.envs.libero import TASKS
from oatkit.envs.libero_experts import STEP_METERS
from oatkit.envs.simulator import Observation, StepResult
from oatkit.errors import DatasetError
from oatkit.presets import policy_preset
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

SUITE = "libero-object"


class Bench:
    """A hand without mass; every second placement fails."""

    made: list[str] = []  # noqa: RUF012  counts for all

    def __init__(self, suite: str, task: str) -> None:
        self.made.append(task)

    def reset(self, seed: int) -> Observation:
        self._hand, self._steps, self._can_solve = np.array([0.0, 0.0, 0.3]), 0, seed % 4 == 0
        return self._observe()

    def step(self, action: Any) -> StepResult:
        self._hand = self._hand + STEP_METERS * np.asarray(action)[:3]
        self._steps += 1
        is_success = self._can_solve and self._steps > 20 and action[6] < 0
        return StepResult(self._observe(), bool(is_success), self._steps == 60)

    def close(self) -> None:
        pass

    def _observe(self) -> Observation:
        state = np.zeros(28, np.float32)
        state[:3], state[7:10] = (0.1, 0.1, 0.05), (-0.1, 0.2, 0)
        return {STATE: np.append(self._hand, np.zeros(5)).astype("f4"), ENVIRONMENT_STATE: state}


def test_successes_become_a_dataset_and_a_stopped_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libero, "Libero", Bench)
    args = Namespace(suite=SUITE, episodes=2, out=tmp_path)
    libero.demonstrate(args)
    dataset = oatkit.open_dataset(tmp_path / SUITE)
    assert len(dataset) == 20
    assert set(dataset.tasks) == set(TASKS[SUITE].values())
    assert dataset.action_dim == 7
    first = tmp_path / f"{SUITE}.attempts" / next(iter(TASKS[SUITE]))
    assert sorted(path.name for path in first.iterdir()) == ["000.npz", "001.failed", "002.npz"]
    Bench.made.clear()
    libero.demonstrate(args)
    assert Bench.made == []
    monkeypatch.setattr(libero, "ARM_NOISE", 0.5)
    with pytest.raises(
        DatasetError, match=r"was made with other options \(arm_noise was 0.02, is 0.5\)"
    ):
        libero.demonstrate(args)


@pytest.mark.parametrize(
    ("solved", "expected"),
    [
        ("1" * 5 + "000" + 20 * "1", (20, 3)),
        ("1110" * 7, (20, 6)),
        ("001" * 9, (1, 3)),
        ("1" + "0" * 9, (1, 3)),
        ("0" * 9, (0, 3)),
    ],
)
def test_a_task_is_left_out_where_the_expert_fails_more_often_than_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solved: str, expected: tuple[int, int]
) -> None:
    """An expert that solves 21 of 24 episodes was given up after its third failure."""

    def run_expert(environment: Any, expert: Any, seed: int) -> dict[str, Any] | None:
        return {"action": np.zeros((1, 7))} if solved[seed // 2] == "1" else None

    monkeypatch.setattr(libero, "Libero", Bench)
    monkeypatch.setattr(libero, "run_expert", run_expert)
    libero.make_attempts(SUITE, next(iter(TASKS[SUITE])), tmp_path, 20)
    assert libero.counts(tmp_path) == expected


def test_an_expert_is_kept_without_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy's evaluation of the suite is added where there is one."""
    from benchmarks import record

    kept: list[Any] = []
    monkeypatch.setattr(record, "write_result", lambda name, **what: kept.append((name, what)))
    task = next(iter(TASKS["libero-spatial"]))
    folder = tmp_path / "libero-spatial.attempts" / task
    folder.mkdir(parents=True)
    for name in ("000.npz", "001.npz", "002.failed"):
        (folder / name).touch()
    asked = {"episodes": 2, "out": tmp_path, "assets": "repaired", "policy": tmp_path}
    args = Namespace(suite="libero-spatial", **asked)
    monkeypatch.setattr(libero, "recipe", lambda folder: {"steps": 5, "folder": folder})
    libero.record(args)
    (tmp_path / "libero-spatial.eval").mkdir()
    names = ("settings", "kind", "versions", "budgets", "seconds", "command")
    parts = dict.fromkeys(names, 1)
    (tmp_path / "libero-spatial.eval/evaluation.json").write_text(json.dumps(parts | {"more": 2}))
    libero.record(args)
    assert [name for name, _ in kept] == ["libero_spatial"] * 2
    assert kept[0][1]["results"]["expert"][task] == {"solved": 2, "failed": 1}
    assert "policy" not in kept[0][1]["results"]
    trained = {"steps": 5, "folder": tmp_path}
    assert kept[1][1]["results"]["policy"] == parts | {"recipe": trained}


def test_the_recipe_is_that_of_the_artifact(tmp_path: Path) -> None:
    """What is needed to train such a policy again."""
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for index in range(4):
        columns = {"action": rng.uniform(-1, 1, (40, 7)), STATE: rng.normal(size=(40, 4))}
        np.savez(tmp_path / f"data/{index}.npz", **columns, task="tidy up", fps=20)
    dataset = oatkit.open_dataset(tmp_path / "data", cache_dir=tmp_path / "cache")
    how: dict[str, Any] = {"preset": "tiny", "num_tokens": 4}
    tokenizer = oatkit.train_tokenizer(dataset, "oat-pow2", train={"steps": 2}, **how)
    out = tmp_path / "policy"
    oatkit.train_policy(dataset, tokenizer, preset="tiny", train={"steps": 3}, out=out)
    found = libero.recipe(out)
    assert json.dumps(found)
    assert found["preset"] == "tiny"
    assert (found["steps"], found["tokenizer_steps"], found["batch_size"]) == (3, 2, 32)
    assert isinstance(found["seconds"], float)
    assert found["tokenizer"]["num_tokens"] == 4
    assert libero.preset_of(replace(policy_preset("small").net, offset_layers=0)) == "small"
    assert libero.preset_of(replace(policy_preset("small").net, width=96)) is None
