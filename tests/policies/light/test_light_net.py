"""The network of the light policy: the loss."""

from __future__ import annotations

import math

import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import LightConfig, LightPolicy
from tests.policies import tiny


def test_an_untrained_network_is_about_as_unsure_as_guessing(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat", dataset)
    torch.manual_seed(0)
    policy = LightPolicy.for_dataset(LightConfig(width=32, num_heads=2), tokenizer, dataset)
    batch = tiny.batch(policy, dataset)
    tokens = tokenizer.encode(torch.from_numpy(batch["action"]))
    loss = policy.net.loss(policy.read(batch), tokens, policy.schedule)
    assert loss.total.item() == pytest.approx(math.log(tokenizer.vocab_size), rel=0.1)
    assert loss.parts["token_loss"] is loss.total
