"""Vision-language policies for several robots: tokens, co-training, and pure flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit.data.mixture import Mixture, open_mixture
from oatkit.jobs.mixture_policy_training import train_mixture_policy
from oatkit.jobs.mixture_training import train_mixture_tokenizer
from oatkit.policies import VlmConfig
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.types import Sampling
from tests.jobs.mixed_robots import HORIZON, RECIPE, robot_on_disk

SIZE = ScratchSize(width=16, num_layers=2, vision_width=16, vision_layers=1)
GREEDY = Sampling(temperature=0)
DIMS = {"arm": 2, "hand": 3}


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    folder = tmp_path_factory.mktemp("robots")
    return open_mixture(
        {
            "arm": robot_on_disk(folder / "a", 2, "front", 40, ("open", "shut")),
            "hand": robot_on_disk(folder / "h", 3, None, 0, ("open",)),
        }
    )


@pytest.fixture(scope="module")
def tokenizers(mixture: Mixture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers")
    sizes: dict[str, Any] = {"horizon": HORIZON, "num_tokens": 4, "preset": "tiny"}
    train_mixture_tokenizer(mixture, "oat", folder, train=RECIPE, **sizes)
    return folder


@pytest.mark.parametrize(
    ("objective", "family"),
    [
        ("vlm-ar", "paligemma"),
        ("vlm-tc", "paligemma"),
        ("vlm-flow", "qwen3-vl"),
        ("vlm-ar", "qwen3-vl"),
    ],
)
def test_a_backbone_acts_for_robots_with_and_without_a_camera(
    objective: Any, family: str, mixture: Mixture, tokenizers: Path, tmp_path: Path
) -> None:
    name = next(known for known in FAMILIES if known.startswith(family))
    backbone = write_scratch(name, tmp_path / "backbone", SIZE, ("arm: open", "hand: shut"))
    config = VlmConfig(objective, expert=ExpertConfig(width=8, num_steps=2))
    found = train_mixture_policy(
        mixture,
        tokenizers,
        config,
        tmp_path / "p",
        backbone=str(backbone),
        preset="tiny",
        cameras=("front",),
        train={"steps": 2, "batch_size": 4},
        device="cpu",
    )
    again = oatkit.load_policies(tmp_path / "p")
    for robot, policy in found.items():
        chunks = mixture[robot].chunks(
            HORIZON, history=policy.spec.history, cameras=tuple(policy.spec.cameras)
        )
        batch = chunks.batch(np.array([0, 30]))
        read = policy.read(batch)
        assert bool(read.is_seen.all()) == (robot == "arm")
        chunk = policy.predict_action_chunk(batch, sampling=GREEDY).chunk
        assert chunk.shape == (2, HORIZON, DIMS[robot])
        same = again[robot].predict_action_chunk(batch, sampling=GREEDY).chunk
        np.testing.assert_allclose(same, chunk, rtol=1e-5, atol=1e-5)
        assert again[robot].digest == policy.digest
    one, other = (
        found["arm"].net.backbone.processor.task_ids([text], has_images=True)
        for text in ("arm: open", "hand: open")
    )
    assert not torch.equal(one, other), "the instruction names the robot"
