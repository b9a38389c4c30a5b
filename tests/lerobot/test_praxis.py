"""Episodes of praxis-eval's MetaWorld, by the adapter and by `oatkit policy eval --benchmark`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import cli
from oatkit.envs.metaworld import METAWORLD
from oatkit.evaluation.praxis import PraxisPolicy
from oatkit.jobs.benchmark_evaluation import RECORD
from oatkit.policies import policy_for_dataset
from oatkit.storage.records import read_record
from oatkit.types import BenchmarkEvaluation, Sampling
from tests.evaluation.benchmark_policy import save_policy
from tests.policies import tiny

praxis_eval = pytest.importorskip("praxis_eval", reason="needs the extra praxis")
pytest.importorskip("lerobot", reason="praxis-eval's MetaWorld needs LeRobot")
pytest.importorskip("metaworld", reason="needs MetaWorld")

STEPS = 12


def test_an_episode_of_metaworld(made_by_oatkit: Path, tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(made_by_oatkit)
    tokenizer = tiny.make_tokenizer("klt", dataset, action_dim=4)
    policy = policy_for_dataset(tiny.CONFIG, tokenizer, dataset, cameras=("corner2",))
    asked = []

    class Watched(PraxisPolicy):
        def act(self, observations, **given):  # type: ignore[no-untyped-def]
            actions = super().act(observations, **given)
            asked.append(actions.shape)
            return actions

    height, width = policy.spec.cameras["corner2"]
    found = praxis_eval.evaluate(
        "metaworld",
        policy=Watched(policy, budget=2, sampling=Sampling(seed=3)),
        config=praxis_eval.EvalConfig(
            num_eval_per_task=1,
            output_dir=tmp_path,
            task="reach-v3",
            env_kwargs={
                "observation_height": height,
                "observation_width": width,
                "episode_length": STEPS,
            },
        ),
    )
    assert found.overall["n_episodes"] == 1
    assert asked == [(1, 4)] * len(asked)
    assert 1 <= len(asked) <= STEPS
    assert found.overall["avg_episode_length"] == len(asked)
    assert np.isfinite(found.overall["avg_reward"])


def test_the_papers_benchmark_from_the_command_line(tmp_path: Path) -> None:
    own = tuple(METAWORLD.tasks[name] for name in METAWORLD.default_tasks)
    policy = save_policy(tmp_path, 32, 4, tasks=own)
    where = ("--benchmark", "light-metaworld", "--episodes", "1", "--out", str(tmp_path / "out"))
    options = ("--env-option", f"episode_length={STEPS}")
    assert cli.main(["policy", "eval", str(policy), *where, *options]) == 0
    record = read_record(tmp_path / "out" / RECORD, BenchmarkEvaluation)
    assert [part.success.episodes for part in record.parts] == [1, 1, 1, 1]
    assert record.settings["execute"] == 16
