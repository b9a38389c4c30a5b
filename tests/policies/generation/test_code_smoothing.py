"""Targets around the true ids: against a slow product, at the edges of float32, and in training."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oatkit
from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import policy_for_dataset
from oatkit.policies.generation import code_smoothing
from oatkit.policies.generation.blockwise_loss import blockwise_loss
from oatkit.policies.generation.code_smoothing import CodeSmoothing
from oatkit.policies.observation.observations import Observations
from oatkit.types import Schedule, Tokens
from tests.policies import tiny

LEVELS = st.lists(st.integers(2, 6), min_size=1, max_size=3)


@given(LEVELS, st.floats(0.2, 3.0), st.data())
def test_shares_are_a_product_of_bells(
    levels: list[int], width: float, data: st.DataObject
) -> None:
    grid = FiniteScalarQuantizer(levels)
    true = data.draw(st.integers(0, grid.num_codes - 1))
    shares = CodeSmoothing(grid.positions(), width)(torch.tensor([[true]]))[0][0, 0]
    bells = []
    for level, digit in zip(levels, grid.digits(torch.tensor(true)).tolist(), strict=True):
        raw = [math.exp(-((other - digit) ** 2) / (2 * width**2)) for other in range(level)]
        bells.append([value / sum(raw) for value in raw])
    # the first dimension of a code counts fastest
    slow = [math.prod(parts) for parts in itertools.product(*reversed(bells))]
    torch.testing.assert_close(shares, torch.tensor(slow), atol=1e-6, rtol=1e-4)


def test_a_narrow_bell_is_the_true_id_also_at_the_far_end_of_many_bins() -> None:
    positions = torch.arange(4096.0)[:, None]
    ids = torch.tensor([[0, 255, 4095]])
    shares, _ = CodeSmoothing(positions, 0.1)(ids)
    torch.testing.assert_close(shares, torch.nn.functional.one_hot(ids, 4096).float())
    wide, _ = CodeSmoothing(positions, 1.0)(ids)
    torch.testing.assert_close(wide[0, 0, 1] / wide[0, 0, 0], torch.tensor(math.exp(-0.5)))
    torch.testing.assert_close(wide[0, 2, -2] / wide[0, 2, -1], torch.tensor(math.exp(-0.5)))


def test_weights_of_half_precision_leave_targets_float32() -> None:
    positions = FiniteScalarQuantizer((8, 5)).positions()
    ids = torch.arange(40)[None]
    wanted, wanted_entropies = CodeSmoothing(positions, 1.0)(ids)
    halved, entropies = CodeSmoothing(positions, 1.0).to(torch.bfloat16)(ids)
    assert halved.dtype == entropies.dtype == torch.float32
    assert torch.equal(halved, wanted)
    assert torch.equal(entropies, wanted_entropies)


@pytest.mark.parametrize("width", [0.1, 1.0, 3.0])
def test_targets_from_the_table_are_those_computed_for_each_call(
    width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions, ids = FiniteScalarQuantizer((8, 5, 5)).positions(), torch.randint(200, (4, 6))
    kept = CodeSmoothing(positions, width)(ids)
    monkeypatch.setattr(code_smoothing, "LARGEST_TABLE", 199)
    computed = CodeSmoothing(positions, width)(ids)
    torch.testing.assert_close(kept, computed, atol=1e-7, rtol=1e-6)


def test_a_table_that_an_evaluation_began_serves_training_and_follows_the_ids_to_their_device() -> (
    None
):
    smoothing, ids = CodeSmoothing(torch.arange(6.0)[:, None], 1.0), torch.arange(6)[None]
    with torch.inference_mode():
        smoothing(ids)
    logits = torch.zeros(6, 6, requires_grad=True)
    torch.nn.functional.cross_entropy(logits, smoothing(ids)[0][0]).backward()
    assert logits.grad is not None
    shares, entropies = smoothing.to("meta")(ids.to("meta"))
    assert (shares.device.type, entropies.device.type) == ("meta", "meta")


def test_a_perfect_prediction_has_no_loss_and_gradients_are_those_of_cross_entropy() -> None:
    torch.manual_seed(0)
    grid = FiniteScalarQuantizer((4, 3))
    smoothing, schedule = CodeSmoothing(grid.positions(), 0.8), Schedule.tokenwise(3)
    tokens = Tokens.full(torch.randint(12, (5, 3)))
    shares, _ = smoothing(tokens.ids)
    perfect = blockwise_loss(shares.log(), tokens, schedule, None, smoothing)
    torch.testing.assert_close(perfect, torch.tensor(0.0), atol=1e-6, rtol=0)
    logits = torch.randn(5, 3, 12, requires_grad=True)
    loss = blockwise_loss(logits, tokens, schedule, None, smoothing)
    slow = (shares * (shares.log() - logits.log_softmax(-1))).sum(-1).mean()
    torch.testing.assert_close(loss, slow)
    found = torch.autograd.grad(loss, logits)[0]
    torch.testing.assert_close(found, (logits.softmax(-1) - shares).detach() / 15)


def test_under_autocast_the_loss_is_that_of_float32() -> None:
    torch.manual_seed(0)
    smoothing = CodeSmoothing(FiniteScalarQuantizer((4, 3)).positions(), 1.0)
    tokens, schedule = Tokens.full(torch.randint(12, (5, 3))), Schedule.tokenwise(3)
    x, weights = torch.randn(5, 3, 8), torch.randn(8, 12, requires_grad=True)
    plain = blockwise_loss(x @ weights, tokens, schedule, None, smoothing)
    with torch.autocast("cpu", torch.bfloat16):
        logits = x @ weights
        loss = blockwise_loss(logits, tokens, schedule, None, smoothing)
    assert (logits.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(loss, plain, atol=0.02, rtol=0.01)
    assert torch.isfinite(torch.autograd.grad(loss, weights)[0]).all()


@pytest.mark.parametrize("kind", tiny.SETTINGS)
def test_kinds_whose_ids_are_points_are_smoothed_and_others_are_not(
    kind: str, tmp_path: Path
) -> None:
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    tokenizer = tiny.make_tokenizer(kind, dataset)
    losses = []
    for width in (0.0, 1.0):
        torch.manual_seed(3)
        config = replace(tiny.CONFIG, code_smoothing=width)
        policy = policy_for_dataset(config, tokenizer, dataset)
        losses.append(float(_loss(policy, dataset)))
    assert (losses[0] != losses[1]) == (kind in ("oat", "oat-pow2", "quest", "bin"))


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "quest", "bin"])
def test_positions_tell_ids_apart_and_neighbors_are_one_apart(kind: str, tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    tokenizer = tiny.make_tokenizer(kind, dataset)
    positions = tokenizer.code_positions
    assert positions is not None
    assert len(positions) == tokenizer.vocab_size
    apart = torch.cdist(positions, positions) + 9 * torch.eye(len(positions))
    torch.testing.assert_close(apart.min(dim=1).values, torch.ones(len(positions)))


def test_the_artifact_remembers_it_and_is_as_before_without(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    tokenizer = tiny.make_tokenizer("oat", dataset)
    plain = policy_for_dataset(tiny.CONFIG, tokenizer, dataset)
    assert "code_smoothing" not in plain.to_json()["net"]
    config = replace(tiny.CONFIG, code_smoothing=0.7)
    smooth = policy_for_dataset(config, tokenizer, dataset)
    again = oatkit.load_policy(smooth.save_pretrained(tmp_path / "policy"))
    assert again.net.config == config
    torch.testing.assert_close(_loss(again, dataset), _loss(smooth, dataset))


def _loss(policy: oatkit.Policy, dataset: oatkit.Dataset) -> torch.Tensor:
    chunks = dataset.chunks(tiny.HORIZON, history=policy.spec.history)
    batch = chunks.batch(list(range(8)))
    actions = torch.as_tensor(batch["action"])
    read = policy.read({k: v for k, v in batch.items() if k.startswith("obs") or k == "task"})
    assert isinstance(read, Observations)
    random = SampleRandom(sample_keys(0, 0, torch.arange(8)))
    return policy.loss(read, policy.tokenizer.encode(actions), actions, random).total.detach()
