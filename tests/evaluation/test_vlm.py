"""A vision-language policy in closed loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit.envs.simulator import ENVIRONMENT_STATE_KEY, STATE_KEY
from oatkit.evaluation.episodes import Evaluation, Job, Rollout
from oatkit.policies import VlmConfig, VlmPolicy
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.tokenizers import ActionTokenizer, make_config
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
            },
            task=text,
        )
    return oatkit.open_dataset(folder / "npz", cache_dir=folder / "cache")


@pytest.mark.parametrize("objective", ["vlm-ar", "vlm-tc", "vlm-flow"])
def test_episodes_are_run(objective: str, data: oatkit.Dataset, tmp_path: Path) -> None:
    backbone = write_scratch("qwen3-vl", tmp_path / "b", ScratchSize(), tuple(TASKS.values()))
    config = make_config("bin", horizon=HORIZON, action_dim=2)
    tokenizer = ActionTokenizer.for_dataset(config, data)
    vlm = VlmConfig(objective, expert=ExpertConfig(width=16, num_steps=2))  # type: ignore[arg-type]
    policy = VlmPolicy.for_dataset(vlm, str(backbone), tokenizer, data, cameras=("top",))
    rollout = Rollout(execute=HORIZON, state_keys=(STATE_KEY, ENVIRONMENT_STATE_KEY))
    budget = policy.schedule.num_tokens
    jobs = [Job(task, budget, episode) for task in ("near", "far") for episode in range(2)]
    found = list(Evaluation(policy, PLANE, rollout).run(jobs))
    assert len(found) == 4
    assert all(0 < e.steps <= PLANE.max_steps and e.error is None for e in found)
    assert {e.calls for e in found} == {HORIZON if objective == "vlm-ar" else 2}
    assert {e.tokens for e in found} == {budget if objective == "vlm-ar" else 0}
