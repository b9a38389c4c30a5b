"""What the offset head learns from, on every kind, and how a policy acts with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import LightFlowConfig, Policy, policy_for_dataset
from oatkit.policies.light.offset_loss import tokens_to_correct
from oatkit.tokenizers import KINDS
from oatkit.types import Sampling, Tokens
from tests.policies import tiny

GREEDY = Sampling(temperature=0.0)


def make_policy(kind: str, dataset: Dataset, **settings: Any) -> Policy:
    tokenizer = tiny.make_tokenizer(kind, dataset)
    torch.manual_seed(1)
    config = replace(tiny.CONFIG, offset_layers=1)
    return policy_for_dataset(config, tokenizer, dataset, **settings)


def random_of(size: int, step: int = 0) -> SampleRandom:
    return SampleRandom(sample_keys(0, step, torch.arange(size)))


@pytest.mark.filterwarnings("ignore:the .* random weights")
@pytest.mark.parametrize("kind", list(KINDS))
def test_corrected_chunks_get_nearer_to_the_truth(kind: str, dataset: Dataset) -> None:
    policy = make_policy(kind, dataset)
    observation = tiny.batch(policy, dataset, 16)
    encoded = policy.tokenizer.encode(torch.from_numpy(observation["action"]))
    tokens = Tokens(encoded.ids.clone(), encoded.lengths.clone())  # which a gradient may keep
    read, actions = policy.read(observation), torch.from_numpy(observation["action"])
    optimizer, losses = torch.optim.Adam(policy.net.parameters(), 1e-2), []
    for step in range(40):
        loss = policy.loss(read, tokens, actions, random_of(16, step))
        assert set(loss.parts) == {"token_loss", "offset_loss"}
        torch.testing.assert_close(sum(loss.parts.values()), loss.total)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        losses.append(loss.parts["offset_loss"].item())
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "klt", "bin", "quest", "acodec", "fast"])
def test_tokens_to_correct(kind: str, dataset: Dataset) -> None:
    """They have trained budgets, half of them are true, and which does not depend on the batch."""
    policy = make_policy(kind, dataset)
    tokenizer, size = policy.tokenizer, 64
    chunks = dataset.chunks(tiny.HORIZON).actions(np.arange(size))[0]
    tokens = tokenizer.encode(torch.from_numpy(chunks))
    torch.manual_seed(0)
    logits = torch.randn(size, tokens.ids.shape[1], tokenizer.vocab_size)
    found = tokens_to_correct(tokenizer, logits, tokens, random_of(size))
    if kind == "fast":
        assert found is tokens
        return
    assert set(found.lengths.tolist()) == set(tokenizer.budgets)
    is_true = (found.ids == tokens.ids).all(dim=1).float().mean()
    assert 0.3 < is_true < 0.7
    assert found.ids.min() >= 0
    assert found.ids.max() < tokenizer.vocab_size
    tail = tokens_to_correct(
        tokenizer,
        logits[40:],
        tokens.rows(slice(40, None)),
        SampleRandom(sample_keys(0, 0, torch.arange(40, size))),
    )
    assert torch.equal(tail.ids, found.ids[40:])
    assert torch.equal(tail.lengths, found.lengths[40:])


@pytest.mark.parametrize("kind", ["oat", "quest"])
def test_a_policy_acts_by_corrected_chunks(kind: str, dataset: Dataset, tmp_path: Path) -> None:
    policy = make_policy(kind, dataset)
    policy.extras.clear()
    policy.tokenizer.extras.clear()
    observation = tiny.batch(policy, dataset)
    plain = policy.predict_action_chunk(observation, sampling=GREEDY)
    decoded = policy.tokenizer.decode(plain.ids)
    np.testing.assert_array_equal(plain.chunk, decoded)  # the head starts at zero
    assert policy.net.offset is not None
    torch.nn.init.normal_(policy.net.offset.out.weight, std=0.5)
    acted = policy.predict_action_chunk(observation, sampling=GREEDY)
    np.testing.assert_array_equal(acted.ids, plain.ids)
    assert np.abs(acted.chunk - plain.chunk).max() > 1e-3
    one = policy.predict_action_chunk(tiny.row(observation, 1), sampling=GREEDY)
    np.testing.assert_allclose(one.chunk[0], acted.chunk[1], rtol=1e-4, atol=1e-5)
    policy.save_pretrained(tmp_path / "policy")
    opened = oatkit.load_policy(tmp_path / "policy")
    again = opened.predict_action_chunk(observation, sampling=GREEDY)
    np.testing.assert_allclose(again.chunk, acted.chunk, rtol=1e-5, atol=1e-6)
    assert opened.to_json()["net"]["offset_layers"] == 1
    assert not opened.tokens_suffice


def test_draws_are_corrected_too(dataset: Dataset) -> None:
    policy = make_policy("oat", dataset)
    policy.extras.clear()
    policy.tokenizer.extras.clear()
    assert policy.net.offset is not None
    torch.nn.init.normal_(policy.net.offset.out.weight, std=0.5)
    observation = tiny.batch(policy, dataset)
    one = policy.predict_action_chunk(observation, sampling=Sampling(seed=3))
    drawn = policy.predict_action_chunk(observation, sampling=Sampling(seed=3), draws=3)
    np.testing.assert_allclose(drawn.chunk, one.chunk, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(drawn.draws[:, 0], drawn.chunk, rtol=1e-4, atol=1e-5)


def test_calibration_sees_corrected_chunks(dataset: Dataset) -> None:
    policy = make_policy("oat", dataset)
    policy.extras.clear()
    policy.tokenizer.extras.clear()
    observation = tiny.batch(policy, dataset, 16)
    read, actions = policy.read(observation), torch.from_numpy(observation["action"])
    policy.calibrate(read, actions, tiny.seeded())
    assert policy.execution is not None
    before = policy.execution.error
    assert policy.net.offset is not None
    torch.nn.init.normal_(policy.net.offset.out.weight, std=2.0)
    policy.calibrate(read, actions, tiny.seeded())
    assert np.mean(policy.execution.error) > 2 * np.mean(before)


def test_the_loss_is_the_same_where_it_is_computed_in_bfloat16(dataset: Dataset) -> None:
    """The tokenizer decodes in float32 under autocast, as it does when the policy acts."""
    policy = make_policy("oat", dataset)
    policy.tokenizer.extras.clear()
    observation = tiny.batch(policy, dataset, 16)
    tokens = policy.tokenizer.encode(torch.from_numpy(observation["action"]))
    plain = policy.tokenizer.decode_normalized(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(policy.tokenizer.decode_normalized(tokens), plain)
        given = (policy.read(observation), tokens, torch.from_numpy(observation["action"]))
        loss = policy.loss(*given, random_of(16))
    assert loss.parts["offset_loss"].item() == pytest.approx(
        policy.loss(*given, random_of(16)).parts["offset_loss"].item(), rel=0.2
    )


def test_settings_that_make_no_sense(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="offset_layers is -1, expected 0 or more"):
        replace(tiny.CONFIG, offset_layers=-1)
    with pytest.raises(ValueError, match="leave --offset-layers out"):
        LightFlowConfig(replace(tiny.CONFIG, offset_layers=1))
    assert "offset_layers" not in tiny.make_policy("oat", dataset).to_json()["net"]
