"""What policies of all kinds do alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import Policy, load_policy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.types import Schedule
from tests.policies import tiny
from tests.policies.tiny import batch, make_flow_policy, make_policy

Make = Callable[[Dataset], Policy]
kinds = pytest.mark.parametrize("make", [partial(make_policy, "bin"), make_flow_policy])


def test_the_signature_of_prediction_is_declared_once() -> None:
    """Whoever needs a policy takes `Policy` or the protocol; no kind declares the method anew."""
    room = Path(oatkit.__file__).parent / "policies"
    found = [p.name for p in room.rglob("*.py") if "def predict_action_chunk(" in p.read_text()]
    assert sorted(found) == ["acting_policy.py", "policy.py"]


@kinds
def test_one_that_was_never_trained_says_so(dataset: Dataset, tmp_path: Path, make: Make) -> None:
    made = make(dataset)
    opened = load_policy(made.save_pretrained(tmp_path / "policy"))
    for policy in (made, opened):
        with pytest.warns(UserWarning, match=f"this {policy.kind} policy is not trained: its"):
            policy.predict_action_chunk(batch(policy, dataset))


@pytest.mark.filterwarnings("error")
@kinds
def test_one_that_a_loop_of_your_own_trains_is_silent(dataset: Dataset, make: Make) -> None:
    policy = make(dataset)
    chunk = batch(policy, dataset)
    tokens = policy.tokenizer.encode(chunk["action"])
    actions_BTA = torch.from_numpy(chunk["action"])
    random = SampleRandom(torch.arange(len(actions_BTA)))
    policy.loss(policy.read(chunk), tokens, actions_BTA, random).total.backward()
    policy.predict_action_chunk(chunk)


@pytest.mark.filterwarnings("ignore:this light.* policy is not trained")
@kinds
def test_draws_are_a_whole_number(dataset: Dataset, make: Make) -> None:
    policy = make(dataset)
    chunk = batch(policy, dataset)
    wrong: list[Any] = [0, -1, 1.0, 2.5, True, "2", None]
    for draws in wrong:
        message = f"draws is {draws!r}, expected a whole number from 1 on"
        with pytest.raises(ValueError, match=re.escape(message)):
            policy.predict_action_chunk(chunk, draws=draws)
    two: list[Any] = [2, np.int64(2)]
    plain, numpys = (
        policy.predict_action_chunk(chunk, generator=range(len(chunk["task"])), draws=number)
        for number in two
    )
    np.testing.assert_array_equal(plain.draws, numpys.draws)


def test_a_head_is_one_of_the_trained(dataset: Dataset) -> None:
    policy = make_policy("bin", dataset)
    policy.choose_head(None)
    policy.choose_head("tokens")
    with pytest.raises(ValueError, match=r"light has no head 'flow', only .'tokens'."):
        policy.choose_head("flow")


def test_how_fast_decodes_is_chosen_with_the_head(dataset: Dataset) -> None:
    policy = make_policy("fast", dataset)
    assert policy.choose_decoder("tokens", "relaxed") is policy
    assert policy.tokenizer.codec.config.decoding == "relaxed"
    with pytest.raises(ValueError, match="strict or relaxed decoding is for fast, not for bin"):
        make_policy("bin", dataset).choose_decoder(None, "relaxed")


def test_a_head_that_was_not_trained_has_nothing_to_give(dataset: Dataset) -> None:
    light, flow = make_policy("bin", dataset), make_flow_policy(dataset)
    chunk = batch(light, dataset)
    read, actions_BTA = light.read(chunk), torch.from_numpy(chunk["action"])
    random = SampleRandom(torch.arange(len(actions_BTA)))
    with pytest.raises(TypeError, match="the light policy has no flow expert"):
        light.flow_loss(read, actions_BTA, random)
    with pytest.raises(TypeError, match="the light policy has no flow expert"):
        _ = light.flow_predictor
    with pytest.raises(TypeError, match="the light-flow policy has no tokens"):
        flow.logits(read, torch.zeros(3, 1), Schedule((1,)))
    with pytest.raises(TypeError, match="the light-flow policy has no tokens"):
        _ = flow.token_predictor
    assert light.tokens_suffice
    assert not flow.tokens_suffice


@kinds
def test_with_further_tasks_it_knows_what_was_calibrated_and_how_it_was_trained(
    dataset: Dataset, make: Make
) -> None:
    policy = make(dataset)
    policy.auto, policy.execution = AutoThresholds((1,), (0.5,)), tiny.two_lengths(1.0)
    policy.extras = {"split": {"held_out": 0.5}}
    larger = policy.with_tasks(["fold the cloth"])
    assert larger.net is not policy.net
    assert larger.execution == policy.execution
    assert larger.extras == {"split": {"held_out": 0.5}}
    assert larger.auto == (policy.auto if "tokens" in policy.heads else None)


@kinds
def test_it_says_what_it_is(dataset: Dataset, make: Make) -> None:
    policy = make(dataset)
    count = sum(p.numel() for p in policy.net.parameters())
    assert repr(policy) == f"Policy({policy.kind}: {count:,} parameters, {policy.tokenizer})"
