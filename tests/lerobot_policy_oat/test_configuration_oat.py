"""The configuration of the policy type `oat`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oatkit.data import Dataset
from oatkit.policies import LightFlowConfig
from oatkit.types import Execution, Sampling
from tests.lerobot_policy_oat.small_oat import (
    make_config,
    make_policy,
)
from tests.policies import tiny
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
    for budget in (None, 2, "auto"):
        assert make_config(tokenizer_path, budget=budget).asked_budget == budget
    assert make_config(tokenizer_path).execution == Execution(), "the defaults are oatkit's"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"n_action_steps": 0}, "n_action_steps is 0, expected 1 to 8, the chunk's steps"),
        ({"n_action_steps": -2}, "n_action_steps is -2, expected 1 to 8"),
        ({"n_action_steps": 9}, "n_action_steps is 9, expected 1 to 8"),
        ({"n_action_steps": "often"}, "n_action_steps is 'often', expected a number or 'auto'"),
        ({"budget": "few"}, "budget is 'few', expected a number of tokens or 'auto'"),
        ({"budget": 7}, r"budget 7 is outside 1 \.\. 6"),
        ({"draws": 0}, "draws is 0, expected a whole number from 1 on"),
        ({"blend": -0.1}, "blend is -0.1, expected a finite number from 0 on"),
        ({"blend": float("nan")}, "blend is nan, expected a finite number from 0 on"),
    ],
)
def test_executions_that_are_none(
    dataset: Dataset, tokenizer_path: str, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        make_policy(dataset, make_config(tokenizer_path, **settings))


def test_the_head_says_which_light_policy_it_is(tokenizer_path: str) -> None:
    assert make_config(tokenizer_path).light_config == tiny.CONFIG
    flow = make_config(None, head="flow", num_steps=4, flow_draws=2, mask_padding=True)
    assert flow.light_config == LightFlowConfig(tiny.CONFIG, 4, 2, mask_padding=True)
    from lerobot_policy_oat import OATConfig

    assert OATConfig(head="flow").light_config == LightFlowConfig(), "the defaults are oatkit's"


def test_chunks_of_a_flow_head_need_no_tokenizer(tokenizer_path: str) -> None:
    assert make_config(None, head="flow").action_delta_indices == list(range(32))
    assert make_config(None, head="flow", chunk_size=5).action_delta_indices == list(range(5))
    known = make_config(tokenizer_path, head="flow")
    assert known.action_delta_indices == list(range(HORIZON))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"head": "flw"}, "unknown head 'flw'; known, closest first: flow, tokens"),
        ({"num_steps": 4}, r"num_steps is for a flow head: leave --policy\.num_steps out, or give"),
        ({"flow_draws": 1}, r"flow_draws is for a flow head: leave --policy\.flow_draws out"),
        ({"mask_padding": True}, r"mask_padding is for a flow head: .* --policy\.head=flow$"),
        ({"head": "flow", "num_steps": 0}, "num_steps is 0, expected at least 1"),
        ({"head": "flow", "flow_draws": 0}, "flow_draws is 0, expected at least 1"),
        ({"head": "flow", "net": replace(tiny.CONFIG, endpoints=(1, 6))}, "has no schedule"),
        ({"head": "flow", "net": replace(tiny.CONFIG, code_smoothing=1.0)}, "has no tokens"),
        ({"head": "flow", "net": replace(tiny.CONFIG, offset_layers=1)}, "nothing to correct"),
        ({"head": "flow", "budget": "auto"}, "budget is 'auto', expected a number of Euler steps"),
        ({"head": "flow", "budget": "few"}, "budget is 'few', expected a number of Euler steps"),
        ({"head": "flow", "budget": 0}, "budget is 0, expected a number of Euler steps from 1"),
        ({"head": "flow", "chunk_size": 9}, "chunk_size is 9, the tokenizer's horizon is 8"),
        ({"head": "flow", "n_action_steps": 9}, "n_action_steps is 9, expected 1 to 8"),
    ],
)
def test_heads_that_are_none_and_settings_of_the_other(
    dataset: Dataset, tokenizer_path: str, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        make_policy(dataset, make_config(tokenizer_path, **settings))


@pytest.mark.parametrize("chunk_size", [0, -3])
def test_chunks_without_steps(dataset: Dataset, chunk_size: int) -> None:
    with pytest.raises(ValueError, match=f"horizon is {chunk_size}, expected at least 1"):
        make_policy(dataset, make_config(None, head="flow", chunk_size=chunk_size))
