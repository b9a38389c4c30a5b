"""The paper's tokenizer: masks, what sees what, nested dropout."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.tokenizers.oat import Oat, OatConfig, register_mask
from oatkit.types import Schedule, Tokens

TINY = {"horizon": 6, "action_dim": 3, "width": 32, "num_layers": 2, "num_heads": 4}


def tiny(**settings: object) -> Oat:
    """A small codec whose every weight is random, so that nothing is equal by accident."""
    torch.manual_seed(0)
    codec = Oat(OatConfig(**{**TINY, "num_tokens": 8, **settings}))
    with torch.no_grad():
        for parameter in codec.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    return codec


def sizes_to_ends(sizes: list[int]) -> tuple[int, ...]:
    return tuple(sum(sizes[: i + 1]) for i in range(len(sizes)))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6).map(sizes_to_ends))
def test_the_register_mask_equals_a_slow_loop(groups: tuple[int, ...]) -> None:
    mask = register_mask(groups)
    group_of = [next(g for g, end in enumerate(groups) if i < end) for i in range(groups[-1])]
    for i in range(groups[-1]):
        for j in range(groups[-1]):
            assert mask[i, j] == (i == j or group_of[j] < group_of[i])


def test_the_masks_are_those_drawn_in_the_paper() -> None:
    assert torch.equal(register_mask(tuple(range(1, 9))), torch.ones(8, 8).tril().bool())
    drawn = "1....... 11...... 111..... 11.1.... 11111... 1111.1.. 1111..1. 1111...1"
    rows = register_mask((1, 2, 4, 8)).tolist()
    assert " ".join("".join(".1"[x] for x in row) for row in rows) == drawn


@pytest.mark.parametrize("kind", ["oat", "oat-pow2"])
def test_registers_depend_on_what_the_mask_allows_and_nothing_else(kind: str) -> None:
    """Move one register's start and see which latents move: two layers deep, transitively."""
    codec = tiny(kind=kind)
    actions = torch.randn(2, 6, 3)
    before = codec._latents(actions)
    mask = register_mask(codec.config.resolved_groups)
    for register in range(8):
        changed = tiny(kind=kind)
        with torch.no_grad():
            changed.registers[0, register] += torch.randn(32)
        moved = (changed._latents(actions) - before).abs().amax(dim=(0, 2)) > 1e-6
        assert moved.tolist() == mask[:, register].tolist()


def test_every_register_sees_every_action() -> None:
    codec = tiny()
    actions = torch.randn(1, 6, 3, requires_grad=True)
    for register in range(8):
        (gradient,) = torch.autograd.grad(codec._latents(actions)[0, register].sum(), actions)
        assert (gradient[0].abs().sum(dim=1) > 1e-8).all()


def test_queries_do_not_see_each_other() -> None:
    codec = tiny()
    tokens = Tokens(torch.randint(0, codec.vocab_size, (2, 8)), torch.tensor([8, 3]))
    before = codec.decode(tokens)
    with torch.no_grad():
        codec.queries[0, 2] += torch.randn(32)
    moved = (codec.decode(tokens) - before).abs().amax(dim=(0, 2)) > 1e-6
    assert moved.tolist() == [False, False, True, False, False, False]


def test_tokens_past_the_budget_mean_nothing_and_those_before_do() -> None:
    codec = tiny()
    ids = torch.randint(0, codec.vocab_size, (4, 8))
    other = (ids + 1) % codec.vocab_size
    lengths = torch.full((4,), 5)
    kept = codec.decode(Tokens(ids, lengths))
    mixed = torch.cat([ids[:, :5], other[:, 5:]], dim=1)
    torch.testing.assert_close(codec.decode(Tokens(mixed, lengths)), kept)
    torch.testing.assert_close(codec.decode(Tokens(ids[:, :5], lengths)), kept)
    for slot in range(5):
        changed = ids.clone()
        changed[:, slot] = other[:, slot]
        assert (codec.decode(Tokens(changed, lengths)) - kept).abs().max() > 1e-5


def draws(codec: Oat, count: int) -> Iterator[int]:
    random = SampleRandom(sample_keys(0, 0, torch.arange(count)))
    return iter(codec.sample_budgets(random).tolist())


@pytest.mark.parametrize("budgets", [None, (2, 3, 8), (8,)])
def test_slots_survive_with_the_papers_probability(budgets: tuple[int, ...] | None) -> None:
    codec = tiny(budgets=budgets)
    drawn = torch.tensor(list(draws(codec, 40_000)))
    trained = torch.tensor(codec.budgets)
    for slot in range(8):
        expected = (trained > slot).float().mean()
        assert abs((drawn > slot).float().mean() - expected) < 0.01


def test_settings_are_independent() -> None:
    config = OatConfig(**TINY, num_tokens=12, kind="oat", budgets=(3, 12), groups=(4, 8, 12))
    codec = Oat(config)
    assert codec.budgets == (3, 12)
    assert codec.schedule == Schedule.blocks(12, 4)
    assert torch.equal(codec.encoder.mask, register_mask((4, 8, 12)))
    ablation = Oat(OatConfig(**TINY, num_tokens=8, nested_dropout=False))
    assert ablation.budgets == (8,)
    assert ablation.schedule == Schedule.pow2(8)
    assert Oat(OatConfig(**TINY, num_tokens=8, kind="oat")).schedule == Schedule.tokenwise(8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_tokens": 12}, "num_tokens is 12, expected a power of two"),
        ({"num_tokens": 8, "budgets": (1, 4)}, r"budgets are \[1, 4\], expected increasing"),
        ({"num_tokens": 8, "budgets": (4, 1, 8)}, r"budgets are \[4, 1, 8\]"),
        ({"num_tokens": 8, "groups": (5, 8)}, "blocks of 1 or more that never get smaller"),
        ({"num_heads": 5}, "width 32 is not divisible by 5 heads"),
        ({"horizon": 0}, "horizon is 0, expected at least 1"),
        ({"kind": "oat-pow3"}, "kind is 'oat-pow3', expected 'oat' or 'oat-pow2'"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OatConfig(**{**TINY, **settings})


def test_the_papers_size() -> None:
    codec = Oat(OatConfig(horizon=32, action_dim=7))
    assert (codec.vocab_size, codec.max_tokens) == (1920, 16)
    assert codec.budgets == (1, 2, 4, 8, 16)
    assert 10e6 < sum(p.numel() for p in codec.parameters()) < 12e6
