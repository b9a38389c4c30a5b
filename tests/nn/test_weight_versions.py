"""Numbers that change with the weights."""

from __future__ import annotations

import torch

from oatkit.nn.weight_versions import weight_versions


def test_they_change_when_a_weight_is_written_to_or_moved() -> None:
    weights = [torch.zeros(3), torch.zeros(4)]
    before = weight_versions(weights)
    assert weight_versions(weights) == before
    weights[1][0] = 1
    written = weight_versions(weights)
    assert written[0] == before[0]
    assert written[1] != before[1]
    moved = [weights[0], weights[1].clone()]
    assert weight_versions(moved) != written


def test_weights_of_inference_mode_have_numbers_too() -> None:
    with torch.inference_mode():
        weights = [torch.zeros(3)]
    assert weight_versions(weights) == weight_versions(weights)
    assert weight_versions([weights[0].clone()]) != weight_versions(weights)
