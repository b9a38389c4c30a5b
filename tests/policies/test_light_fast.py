"""The light policy on `fast`, whose sequences end where they say and may not decode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.errors import DecodeError
from oatkit.policies import LightPolicy
from oatkit.policies.generation.blockwise import Stage
from oatkit.types import Tokens
from tests.policies import tiny
from tests.policies.tiny import seeded


def saying(tokens: Tokens, policy: LightPolicy) -> Any:
    """In place of a policy's feed: one that says these tokens, each row with its end."""
    wanted = torch.full((len(tokens), policy.tokenizer.max_tokens), policy.net.end_id)
    for row, ids, length in zip(wanted, tokens.ids, tokens.lengths, strict=True):
        row[:length] = ids[:length]
    slots = iter(range(policy.tokenizer.max_tokens))

    def feed(inputs: Tensor, stage: Stage) -> Tensor:
        num_outputs = policy.tokenizer.vocab_size + 1
        return torch.nn.functional.one_hot(wanted[:, next(slots), None], num_outputs) * 50.0

    return feed


def test_fast_ends_with_its_symbol(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    tokens = policy.tokenizer.encode(observation["action"])
    lengths = tokens.lengths
    policy.start = lambda *_: saying(tokens, policy)  # type: ignore[method-assign]
    found = policy.predict_action_chunk(observation)
    assert found.budget.tolist() == lengths.tolist()
    assert found.calls.tolist() == [min(n + 1, policy.schedule.calls) for n in lengths.tolist()]
    wanted = policy.tokenizer.decode(tokens).numpy()
    np.testing.assert_allclose(found.chunk, wanted, atol=1e-5)


def test_fast_draws_again_and_then_says_so(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    with pytest.raises(DecodeError, match=r"3 of 3 sequences did not decode in 10 draws; the last"):
        policy.predict_action_chunk(observation, generator=seeded())
    real = policy.tokenizer.decode
    calls: list[int] = []

    def decode(tokens: Tokens, budget: int | None = None) -> Tensor:
        calls.append(1)
        if len(calls) in (2, 4):  # row 1 twice
            raise DecodeError("short")
        return torch.zeros(1, tiny.HORIZON, tiny.ACTION_DIM)

    policy.tokenizer.decode = decode  # type: ignore[assignment, method-assign]
    found = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    assert found.draws.tolist() == [1, 3, 1]
    assert len(calls) == 5
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    policy.tokenizer.decode = real  # type: ignore[method-assign]


def test_relaxed_fast_mends_instead(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    policy.tokenizer.codec = policy.tokenizer.codec.relaxed()
    found = policy.predict_action_chunk(tiny.batch(policy, dataset), generator=seeded())
    assert found.draws.tolist() == [1, 1, 1]
    assert np.isfinite(found.chunk).all()
    prefix = policy.predict_action_chunk(tiny.batch(policy, dataset), budget=3, generator=seeded())
    assert (prefix.budget <= 3).all()
    assert prefix.ids.shape == prefix.entropy_bits.shape
    with pytest.raises(ValueError, match="fast decodes only all of its tokens: budget auto"):
        policy.predict_action_chunk(tiny.batch(policy, dataset), budget="auto")
    assert len(policy.latency().stages_ms) == policy.schedule.calls
