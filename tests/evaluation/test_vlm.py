"""A vision-language policy in closed loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.praxis import PraxisPolicy
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.policies import Policy, VlmConfig, policy_for_dataset
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.types import Execution, Sampling
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE, TASK
from tests.evaluation.plane import HORIZON, PLANE, TASKS


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> oatkit.Dataset:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    (folder / "npz").mkdir()
    for index, text in enumerate(TASKS.values()):
        np.savez(
            folder / f"npz/{index}.npz",
            **{
                "action": rng.uniform(-1, 1, size=(20, 2)),
                "observation.state": rng.normal(size=(20, 4)),
                "observation.images.top": rng.integers(256, size=(20, 16, 16, 3), dtype=np.uint8),
                "observation.images.below": rng.integers(256, size=(20, 8, 8, 3), dtype=np.uint8),
            },
            task=text,
        )
    return oatkit.open_dataset(folder / "npz", cache_dir=folder / "cache")


def make(
    objective: str, data: oatkit.Dataset, folder: Path, cameras: tuple[str, ...] = ("top",)
) -> Policy:
    """An untrained policy."""
    backbone = write_scratch("qwen3-vl", folder / "b", ScratchSize(), tuple(TASKS.values()))
    config = make_config("bin", horizon=HORIZON, action_dim=2)
    tokenizer = ActionTokenizer.for_dataset(config, data)
    vlm = VlmConfig(objective, expert=ExpertConfig(width=16, num_steps=2))  # type: ignore[arg-type]
    return policy_for_dataset(vlm, tokenizer, data, backbone=str(backbone), cameras=cameras)


@pytest.mark.parametrize("objective", ["vlm-ar", "vlm-tc", "vlm-flow"])
def test_episodes_are_run(objective: str, data: oatkit.Dataset, tmp_path: Path) -> None:
    policy = make(objective, data, tmp_path)
    rollout = Rollout(Execution(HORIZON), state_keys=(STATE, ENVIRONMENT_STATE))
    budget = policy.budgets[-1]
    plans = [EpisodePlan(task, budget, episode) for task in ("near", "far") for episode in range(2)]
    found = list(EpisodeRunner(policy, PLANE, rollout).run(plans))
    assert len(found) == 4
    assert all(0 < e.steps <= PLANE.max_steps and e.error is None for e in found)
    assert {e.calls for e in found} == {HORIZON if objective == "vlm-ar" else 2}
    assert {e.tokens for e in found} == {budget if objective == "vlm-ar" else 0}


# In praxis-eval


@pytest.fixture(scope="module")
def two_eyed(data: oatkit.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return make("vlm-ar", data, tmp_path_factory.mktemp("policy"), ("top", "below"))


def frame(seed: int = 0, **changed: Any) -> dict[str, Any]:
    """What a benchmark shows: more than the policy reads."""
    rng = np.random.default_rng(seed)
    shown = {
        STATE: rng.normal(size=4).astype(np.float32),
        "observation.images.top": rng.integers(256, size=(16, 16, 3), dtype=np.uint8),
        "observation.images.below": rng.integers(256, size=(8, 8, 3), dtype=np.uint8),
        "observation.images.left": np.zeros((4, 4, 3), np.uint8),
        "observation.gripper": np.zeros(2),
        TASK: TASKS["near"],
    } | changed
    return {key: value for key, value in shown.items() if value is not None}


def act(policy: Policy, *frames: dict[str, Any], execute: int = 1) -> np.ndarray:
    """The first actions that the likeliest tokens give."""
    praxis = PraxisPolicy(policy, execute=execute, sampling=Sampling(temperature=0))
    return praxis.act(list(frames))


def test_praxis_reads_as_the_policy_does(two_eyed: Policy) -> None:
    shown = [frame(0), frame(1, task="Go to the moon.")]
    found = act(two_eyed, *shown)
    for one, action in zip(shown, found, strict=True):
        two_eyed.reset()
        known = two_eyed.read(one, allow_more=True)
        direct = two_eyed.predict_action_chunk(known, sampling=Sampling(temperature=0))
        np.testing.assert_allclose(action, direct.chunk[0], atol=1e-5)


def test_praxis_takes_instructions_that_were_not_trained_on(two_eyed: Policy) -> None:
    assert "Fly away now." not in two_eyed.spec.tasks
    known, unseen = (
        two_eyed.read(frame(task=t), allow_more=True) for t in (TASKS["near"], "Fly away now.")
    )
    assert known.task.tolist() != unseen.task.tolist()
    assert np.isfinite(act(two_eyed, frame(task="Fly away now."))).all()
    with pytest.raises(ValueError, match="the instruction is ' ', expected text"):
        act(two_eyed, frame(task=" "))


def test_praxis_takes_observations_without_a_camera(two_eyed: Policy) -> None:
    """A missing camera is masked: what its image would have shown plays no part."""
    masked = frame(**{"observation.images.below": None})
    praxis = PraxisPolicy(two_eyed, execute=1, sampling=Sampling(temperature=0))
    assert np.isfinite(praxis.act([masked, frame(1)])).all()
    read = two_eyed.read(masked, allow_more=True)
    assert read.is_seen[0, 0].tolist() == [True, False]
    np.testing.assert_allclose(
        act(two_eyed, masked, frame(1))[0], act(two_eyed, masked)[0], atol=1e-5
    )


def test_an_image_of_another_size_is_refused(two_eyed: Policy) -> None:
    wrong = frame(**{"observation.images.below": np.zeros((9, 9, 3), np.uint8)})
    with pytest.raises(
        ValueError, match=r"observation\.images\.below is \(9, 9, 3\), expected \(8, 8"
    ):
        act(two_eyed, wrong)
