"""The configuration of the policy type `oat`."""

from __future__ import annotations

from typing import Any

import pytest

from oatkit.data import Dataset
from oatkit.types import Execution, Sampling
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


def test_execution_is_one_object(tokenizer_path: str) -> None:
    config = make_config(tokenizer_path, n_action_steps="auto", blend=0.1, draws=4)
    assert config.execution == Execution("auto", 0.1, draws=4)
    assert [make_config(tokenizer_path, budget=b).token_budget for b in (None, 2, "auto")] == [
        None,
        2,
        "auto",
    ]
    assert make_config(tokenizer_path).execution == Execution(), "the defaults are oatkit's"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"n_action_steps": 0}, "n_action_steps is 0, expected 1 to 8, the chunk's steps"),
        ({"n_action_steps": -2}, "n_action_steps is -2, expected 1 to 8"),
        ({"n_action_steps": 9}, "n_action_steps is 9, expected 1 to 8"),
        ({"n_action_steps": "often"}, "n_action_steps is 'often', expected a number or 'auto'"),
        ({"budget": "few"}, "budget is 'few', expected a number of tokens or 'auto'"),
        ({"draws": 0}, "draws is 0, expected 1 or more"),
        ({"blend": -0.1}, "blend is -0.1, expected 0 or more"),
        ({"blend": float("nan")}, "blend is nan, expected 0 or more"),
    ],
)
def test_executions_that_are_none(
    dataset: Dataset, tokenizer_path: str, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        make_policy(dataset, make_config(tokenizer_path, **settings))
