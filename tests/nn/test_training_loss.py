"""Losses and their parts: those of every learned kind explain its total."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import Tensor

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.training_loss import TrainingLoss, reconstruction_loss
from oatkit.tokenizers import make_codec, make_config

SIZES = {"horizon": 8, "action_dim": 3, "width": 16, "num_layers": 1, "num_heads": 2}


def loss_of(kind: str, **settings: object) -> TrainingLoss:
    torch.manual_seed(0)
    codec = make_codec(make_config(kind, **SIZES, **settings))
    random = SampleRandom(sample_keys(0, 0, torch.arange(32)))
    loss: TrainingLoss = codec.loss(torch.randn(32, 8, 3), random)  # type: ignore[attr-defined]
    return loss


def test_a_loss_has_no_parts_unless_named() -> None:
    loss = TrainingLoss(torch.tensor(1.0))
    assert dict(loss.parts) == {}
    with pytest.raises(FrozenInstanceError):
        loss.total = torch.tensor(2.0)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "names"),
    [("quest", {"reconstruction"}), ("acodec", {"reconstruction", "commitment"})],
)
def test_the_parts_sum_to_the_total(kind: str, names: set[str]) -> None:
    loss = loss_of(kind)
    assert set(loss.parts) == names
    torch.testing.assert_close(sum(loss.parts.values()), loss.total)


@pytest.mark.parametrize("draws", [1, 3])
def test_each_sample_counts_in_the_part_of_its_budget(draws: int) -> None:
    loss = loss_of("oat", num_tokens=4, budgets_per_chunk=draws)
    assert list(loss.parts) == ["loss@1", "loss@2", "loss@4"]
    values: Tensor = torch.stack(list(loss.parts.values()))
    assert values.shape == (3, 32 * draws)
    assert not values.requires_grad
    assert ((~values.isnan()).sum(dim=0) == 1).all()
    torch.testing.assert_close(values.nansum(dim=0).mean(), loss.total)


def test_without_nested_dropout_all_samples_have_all_tokens() -> None:
    loss = loss_of("oat-pow2", num_tokens=4, nested_dropout=False)
    assert list(loss.parts) == ["loss@4"]
    torch.testing.assert_close(loss.parts["loss@4"].mean(), loss.total)


@pytest.mark.parametrize("kind", ["oat", "quest", "acodec"])
def test_dimensions_of_weight_0_change_no_loss(kind: str) -> None:
    torch.manual_seed(0)
    codec = make_codec(make_config(kind, **SIZES)).eval()
    weight_BA = torch.tensor([1.5, 1.5, 0.0]).expand(32, 3)
    actions_BTA = torch.randn(32, 8, 3)

    def loss(weight: Tensor | None) -> Tensor:
        random = SampleRandom(sample_keys(0, 0, torch.arange(32)))
        found: TrainingLoss = codec.loss(actions_BTA, random, weight)
        return found.total

    (gradient,) = torch.autograd.grad(loss(weight_BA), codec.head.bias)
    assert gradient[2] == 0
    assert gradient[:2].abs().min() > 0
    torch.testing.assert_close(loss(torch.ones(32, 3)), loss(None))


def test_weights_make_a_mean_over_what_counts() -> None:
    rebuilt, wanted = torch.zeros(1, 2, 4), torch.tensor([1.0, 3.0, 9.0, 9.0]).expand(1, 2, 4)
    weight = torch.tensor([[2.0, 2.0, 0.0, 0.0]])
    assert reconstruction_loss(rebuilt, wanted, weight).item() == 5.0
    assert reconstruction_loss(rebuilt, wanted, weight, "l1").item() == 2.0
