"""Sizes of the light policy that are impossible."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from oatkit.policies import LightFlowConfig
from tests.policies import tiny


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0, expected at least 1"),
        ({"num_heads": 3}, "width 16 is not divisible by 3 heads"),
        ({"crop_size": 32}, "crop_size is 32, expected at least 33"),
        ({"image_size": 20}, "crop_size 36 exceeds image_size 20"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(tiny.CONFIG, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps is 0, expected at least 1"),
        ({"flow_draws": 0}, "flow_draws is 0, expected at least 1"),
        (
            {"sizes": replace(tiny.CONFIG, endpoints=(8,))},
            "light-flow has no schedule: leave --endpoints out",
        ),
    ],
)
def test_impossible_flows_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LightFlowConfig(**changes)


def test_a_flow_config_is_json_and_back() -> None:
    config = LightFlowConfig(tiny.CONFIG, num_steps=5, flow_draws=2, mask_padding=True)
    assert LightFlowConfig.from_json(json.loads(json.dumps(asdict(config)))) == config
