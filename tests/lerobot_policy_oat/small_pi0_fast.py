"""Small policies of the type `pi0_fast_oat`, and what they observe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.lerobot_policy_oat.text import NUM_IDS
from tests.policies.tiny import ACTION_DIM, HORIZON

pytest.importorskip("transformers", reason="pi0_fast needs transformers")

CAMERA = "observation.images.front"
LEAD = [1, 4, 5]
"""Ids of `<bos> Action :`."""
FIRST_ACTION_ID = NUM_IDS - 1 - 128
"""Id of the text vocabulary for the action id 0."""


def make_config(folders: dict[str, str], **settings: Any) -> Any:
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig

    settings = {
        "action_tokenizer_name": folders["klt"],
        "text_tokenizer_name": folders["text"],
        "chunk_size": HORIZON,
        "n_action_steps": 4,
        "tokenizer_max_length": 12,
        "device": "cpu",
        **settings,
    }
    observed = {
        CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 224, 224)),
        "observation.state": PolicyFeature(FeatureType.STATE, (5,)),
    }
    done = {"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))}
    return PI0FastOATConfig(input_features=observed, output_features=done, **settings)


def make_policy(config: Any) -> Any:
    from lerobot_policy_oat.modeling_pi0_fast_oat import PI0FastOATPolicy

    torch.manual_seed(0)
    return PI0FastOATPolicy(config, dataset_stats=None, dataset_meta=None)


def observation(num_rows: int = 3, seed: int = 0) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    mask = np.arange(12) < np.array([12, 7, 9])[:num_rows, None]
    ids = rng.integers(7, NUM_IDS, size=(num_rows, 12)) * mask
    return {
        CAMERA: torch.from_numpy(rng.random((num_rows, 3, 224, 224), np.float32)),
        "observation.language.tokens": torch.from_numpy(ids),
        "observation.language.attention_mask": torch.from_numpy(mask),
    }
