"""New policies for a dataset of LeRobot."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.policies.light.light_model import LightModel
from tests.lerobot_policy_oat.small_oat import make_config, make_policy, meta, stats
from tests.policies import tiny


@pytest.mark.parametrize(("head", "model"), [("tokens", LightModel), ("flow", LightFlowModel)])
def test_the_head_that_was_asked_for(
    dataset: Dataset, tokenizer_path: str, head: str, model: type
) -> None:
    light = make_policy(dataset, make_config(tokenizer_path, head=head)).light
    assert isinstance(light.model, model)
    assert light.tokenizer.digest == oatkit.load_tokenizer(tokenizer_path).digest
    assert light.extras["data"]["state_keys"] == ["observation.state"]


def test_a_flow_head_without_a_tokenizer_normalizes_by_the_dataset(dataset: Dataset) -> None:
    light = make_policy(dataset, make_config(None, head="flow", chunk_size=5)).light
    expected = tiny.make_tokenizer("bin", dataset, horizon=5)
    assert (light.tokenizer.kind, light.tokenizer.horizon) == ("bin", 5)
    assert light.tokenizer.normalizer.to_json() == expected.normalizer.to_json()
    facts = light.tokenizer.data
    assert (facts.action_names, facts.fps, facts.action_keys) == (
        ("x", "y", "z"),
        dataset.fps,
        ("action",),
    )


def test_a_drifted_dataset_is_told(
    dataset: Dataset, tokenizer_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    from lerobot_policy_oat.modeling_oat import OATPolicy

    moved = stats(dataset)
    moved["action"] = {k: 3 * np.asarray(v) for k, v in moved["action"].items()}
    with caplog.at_level(logging.WARNING):
        OATPolicy(make_config(tokenizer_path), dataset_stats=moved, dataset_meta=meta(dataset))
    assert "dimension 0 ('x') drifted" in caplog.text
    caplog.clear()
    for key in ("q01", "q99"):  # older datasets have none
        del moved["action"][key], moved["observation.state"][key]
    with caplog.at_level(logging.WARNING):
        OATPolicy(make_config(tokenizer_path), dataset_stats=moved, dataset_meta=meta(dataset))
    assert "drifted" not in caplog.text
