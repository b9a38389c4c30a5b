"""All policies are what the protocol declares, argument by argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import LightFlowPolicy, LightPolicy, VlmPolicy, load_policy
from oatkit.policies.policy import ActingPolicy, Policy
from tests.policies.tiny import batch, make_flow_policy, make_policy

METHODS = sorted(
    name
    for protocol in (ActingPolicy, Policy)
    for name, value in vars(protocol).items()
    if inspect.isfunction(value) and not name.startswith("_")
)


@pytest.mark.parametrize("policy", [LightPolicy, LightFlowPolicy, VlmPolicy])
@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_declared_arguments(policy: type, name: str) -> None:
    declared = inspect.signature(getattr(Policy, name)).parameters
    found = inspect.signature(getattr(policy, name)).parameters
    assert list(found) == list(declared)
    defaults: dict[str, Any] = {key: p.default for key, p in declared.items()}
    assert {key: p.default for key, p in found.items()} == defaults


def test_the_signature_of_prediction_is_declared_once() -> None:
    """Whoever needs a policy takes the protocol; nobody declares the method anew."""
    assert "predict_action_chunk" in METHODS
    assert "predict_action_chunk" not in vars(Policy), "it is that of ActingPolicy"


@pytest.mark.parametrize("make", [partial(make_policy, "bin"), make_flow_policy])
def test_one_that_was_never_trained_says_so(
    dataset: Dataset, tmp_path: Path, make: Callable[[Dataset], Policy]
) -> None:
    made = make(dataset)
    opened = load_policy(made.save_pretrained(tmp_path / "policy"))
    for policy in (made, opened):
        with pytest.warns(UserWarning, match=f"this {policy.kind} policy is not trained: its"):
            policy.predict_action_chunk(batch(policy, dataset))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [partial(make_policy, "bin"), make_flow_policy])
def test_one_that_a_loop_of_your_own_trains_is_silent(
    dataset: Dataset, make: Callable[[Dataset], Policy]
) -> None:
    policy = make(dataset)
    chunk = batch(policy, dataset)
    tokens = policy.tokenizer.encode(chunk["action"])
    actions_BTA = torch.from_numpy(chunk["action"])
    random = SampleRandom(torch.arange(len(actions_BTA)))
    policy.loss(policy.read(chunk), tokens, actions_BTA, random).total.backward()
    policy.predict_action_chunk(chunk)
