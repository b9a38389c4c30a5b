"""An episode of praxis-eval's MetaWorld, driven by a policy of ours through the adapter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.evaluation.praxis import PraxisPolicy
from oatkit.policies import LightPolicy
from oatkit.types import Sampling
from tests.policies import tiny

praxis_eval = pytest.importorskip("praxis_eval", reason="needs the extra praxis")
pytest.importorskip("lerobot", reason="praxis-eval's MetaWorld needs LeRobot")
pytest.importorskip("metaworld", reason="needs MetaWorld")

STEPS = 12


def test_an_episode_of_metaworld(made_by_oatkit: Path, tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(made_by_oatkit)
    tokenizer = tiny.make_tokenizer("klt", dataset, action_dim=4)
    policy = LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, cameras=("corner2",))
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
