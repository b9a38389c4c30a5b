"""Learned tokens, and analytic ones behind them."""

from __future__ import annotations

import pytest
import torch

from oatkit.tokenizers import make_codec, make_config
from oatkit.tokenizers.codec import PartlyLearned, trained_part
from oatkit.tokenizers.refined import Refined
from oatkit.types import Schedule, Tokens
from tests.tokenizers.small_tokenizers import clusters


def refined(kind: str, num_tokens: int, refine: int, **settings: object) -> Refined:
    torch.manual_seed(0)
    size = {"width": 16, "num_layers": 1, "num_heads": 2, "levels": (4, 4)}
    tokens = {"num_tokens": num_tokens, "refine": refine}
    config = make_config(kind, horizon=4, action_dim=2, **size, **tokens, **settings)
    codec = make_codec(config)
    assert isinstance(codec, Refined)
    return codec.requires_grad_(False)


def test_a_tail_refines_what_the_learned_tokens_leave() -> None:
    codec, unseen = refined("oat", 2, 4), clusters(300, seed=2)
    codec.fit(lambda: iter(clusters(800, seed=1).split(100)))
    tokens = codec.encode(unseen)
    assert tokens.ids.shape == (300, 6)
    torch.testing.assert_close(tokens.ids[:, :2], codec.learned.encode(unseen).ids)
    prefix = Tokens(tokens.ids, torch.tensor([2]).expand(300))
    torch.testing.assert_close(codec.decode(prefix), codec.learned.decode(tokens.prefix(2)))
    left = [float((codec.decode(tokens.prefix(k)) - unseen).square().mean()) for k in range(2, 7)]
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.05 * left[0]


@pytest.mark.parametrize(
    ("kind", "num_tokens", "refine", "budgets", "schedule"),
    [
        ("oat", 4, 12, (1, 2, 4, 8, 16), Schedule.tokenwise(16)),
        ("oat", 3, 2, (1, 2, 3, 4, 5), Schedule.tokenwise(5)),
        ("oat-pow2", 4, 12, (1, 2, 4, 8, 16), Schedule.pow2(16)),
        ("oat-pow2", 4, 6, (1, 2, 4, 8, 10), Schedule((1, 2, 4, 6, 8, 10))),
    ],
)
def test_budgets_and_schedule_go_on(
    kind: str, num_tokens: int, refine: int, budgets: tuple[int, ...], schedule: Schedule
) -> None:
    codec = refined(kind, num_tokens, refine)
    assert codec.budgets == budgets
    assert codec.schedule == schedule


def test_a_tail_that_no_schedule_fits() -> None:
    with pytest.raises(ValueError, match="3 refining tokens cannot be generated in blocks of 2"):
        refined("oat-pow2", 4, 3)
    with pytest.raises(ValueError, match="refine is -1, expected 0 or more"):
        refined("oat", 4, -1)


def test_only_the_learned_tokens_are_trained() -> None:
    codec = refined("oat", 2, 4)
    assert isinstance(codec, PartlyLearned)
    assert trained_part(codec) is codec.learned
    assert trained_part(codec.learned) is codec.learned
    assert trained_part(codec.tail) is codec.tail
