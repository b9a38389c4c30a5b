"""The configuration of the policy type `oat`."""

from __future__ import annotations

import pytest

from oatkit.data import Dataset
from oatkit.types import Sampling
from tests.lerobot_policy_oat.small_oat import (
    make_config,
    make_policy,
)
from tests.policies.tiny import HORIZON


def test_delta_indices_before_and_after_the_tokenizer_is_known(
    dataset: Dataset, tokenizer_path: str
) -> None:
    config = make_config(tokenizer_path)
    assert config.observation_delta_indices == [-1, 0]
    assert config.action_delta_indices == list(range(HORIZON))
    make_policy(dataset, config)
    assert (config.tokenizer_path, config.chunk_size, config.n_action_steps) == (None, HORIZON, 4)
    assert config.action_delta_indices == list(range(HORIZON))


def test_sampling_is_one_object(tokenizer_path: str) -> None:
    config = make_config(tokenizer_path, temperature=0.5, top_k=None, top_p=0.9, seed=3)
    assert config.sampling == Sampling(temperature=0.5, top_k=None, top_p=0.9, seed=3)
    from lerobot_policy_oat import OATConfig

    assert OATConfig().sampling == Sampling(), "the defaults are oatkit's"
    with pytest.raises(ValueError, match="top_p is 2, expected more than 0 and at most 1"):
        _ = make_config(tokenizer_path, top_p=2).sampling
