"""Errors of held-out chunks, as an artifact keeps them."""

from __future__ import annotations

import numpy as np

import oatkit
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.rate_distortion import held_out_chunks, rate_distortion


def test_errors_are_those_of_decoded_chunks() -> None:
    dataset = oatkit.open_dataset(np.random.default_rng(0).normal(size=(4, 10, 2)))
    config = make_config("bin", horizon=4, action_dim=2, num_bins=8)
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    actions, state = held_out_chunks(tokenizer, dataset)
    assert state is None
    (row,) = rate_distortion(tokenizer, actions)
    decoded = tokenizer.decode(tokenizer.encode(actions))
    assert row == {"budget": 8, "bits": 24.0, "mse": float((decoded - actions).square().mean())}
