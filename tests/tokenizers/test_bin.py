"""`bin`: uniform bins in the order of time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oatkit.tokenizers.bin import Bin, BinConfig
from oatkit.types import Schedule
from tests.tokenizers.small_tokenizers import make, walks


def test_bins_are_those_of_numpy() -> None:
    codec = Bin(BinConfig(horizon=5, action_dim=2, num_bins=10))
    actions = torch.rand(20, 5, 2) * 1.98 - 0.99
    edges = np.linspace(-1, 1, 11)
    wanted = np.digitize(actions.numpy(), edges) - 1
    tokens = codec.encode(actions)
    np.testing.assert_array_equal(tokens.ids.numpy(), wanted.reshape(20, 10))
    centers = (edges[1:] + edges[:-1]) / 2
    np.testing.assert_allclose(codec.decode(tokens).numpy(), centers[wanted], atol=1e-6)


def test_values_outside_take_the_outermost_bins() -> None:
    codec = Bin(BinConfig(horizon=1, action_dim=2))
    assert codec.encode(torch.tensor([[[-7.0, 7.0]]])).ids.tolist() == [[0, 255]]


def test_the_error_is_at_most_half_a_bin() -> None:
    tokenizer = make("bin")
    decoded = tokenizer.normalizer.normalize(tokenizer.decode(tokenizer(walks())))
    error = np.abs(decoded - tokenizer.normalizer.normalize(walks()))
    assert error.max() <= 1 / 256 + 1e-5


def test_one_step_of_time_is_generated_at_once() -> None:
    assert Bin(BinConfig(horizon=4, action_dim=3)).schedule == Schedule.blocks(12, 3)
    with pytest.raises(ValueError, match="num_bins is 1, expected at least 2"):
        BinConfig(horizon=4, action_dim=3, num_bins=1)
