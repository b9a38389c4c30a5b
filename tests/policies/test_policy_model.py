"""All kinds bring what the protocol declares, argument by argument."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.policies.light.light_model import LightModel
from oatkit.policies.policy_artifact import COMMON_KEYS
from oatkit.policies.policy_model import PolicyModel, WritesFiles
from oatkit.policies.vlm.vlm_model import VlmModel
from tests.policies import tiny

METHODS = sorted(
    name
    for name, value in vars(PolicyModel).items()
    if inspect.isfunction(value) and not name.startswith("_")
)
ATTRIBUTES = sorted(
    name for name, value in vars(PolicyModel).items() if isinstance(value, property)
)


@pytest.mark.parametrize("model", [LightModel, LightFlowModel, VlmModel])
@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_declared_arguments(model: type, name: str) -> None:
    declared = inspect.signature(getattr(PolicyModel, name)).parameters
    found = inspect.signature(getattr(model, name)).parameters
    assert list(found) == list(declared)
    defaults: dict[str, Any] = {key: p.default for key, p in declared.items()}
    assert {key: p.default for key, p in found.items()} == defaults


@pytest.fixture(scope="module", params=["light", "light-flow"])
def policy(request: pytest.FixtureRequest, dataset: Dataset) -> Policy:
    if request.param == "light":
        return tiny.make_policy("oat", dataset, cameras=("front",), offset_layers=1)
    return tiny.make_flow_policy(dataset, cameras=("front",))


def test_a_policy_has_what_its_model_has(policy: Policy) -> None:
    model = policy.model
    assert {"net", "tokenizer", "spec", "actions", "schedule", "rows_at_once"} < set(ATTRIBUTES)
    for name in ATTRIBUTES:
        if name != "correct":
            assert getattr(policy, name) == getattr(model, name), name


def test_readers_hold_nothing_that_is_trained(policy: Policy) -> None:
    reader = policy.model.episode_reader()
    assert reader is not policy.model.episode_reader(), "each has frames of its own"
    size = sum(p.numel() * p.element_size() for p in policy.net.parameters())
    assert len(pickle.dumps(reader)) < size / 4


def test_settings_are_those_of_the_kind_alone(policy: Policy) -> None:
    assert set(policy.model.settings()) & set(COMMON_KEYS) == {"net"}


def test_only_backbones_have_files_of_their_own(policy: Policy) -> None:
    assert not isinstance(policy.model, WritesFiles)
    assert hasattr(VlmModel, "write_files")
