"""The network of the light policy: the loss."""

from __future__ import annotations

import math

import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import LightConfig, policy_for_dataset
from tests.policies import tiny


def test_an_untrained_network_is_about_as_unsure_as_guessing(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat", dataset)
    torch.manual_seed(0)
    policy = policy_for_dataset(LightConfig(width=32, num_heads=2), tokenizer, dataset)
    batch = tiny.batch(policy, dataset)
    tokens = tokenizer.encode(torch.from_numpy(batch["action"]))
    context = policy.net.encode(policy.read(batch))
    loss, logits = policy.net.token_loss(context, tokens, policy.schedule)
    assert loss.item() == pytest.approx(math.log(tokenizer.vocab_size), rel=0.1)
    assert logits.shape == (3, tokenizer.max_tokens, tokenizer.vocab_size)


def test_rows_of_a_context_are_those_of_the_batch(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset)
    with torch.inference_mode():
        whole = policy.net.encode(policy.read(tiny.batch(policy, dataset)))
    picked = policy.net.select_rows(whole, torch.tensor([2, 0]))
    torch.testing.assert_close(picked.encoded, whole.encoded[[2, 0]])
    torch.testing.assert_close(picked.pairs[1][0], whole.pairs[1][0][[2, 0]])
