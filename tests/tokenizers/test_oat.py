"""The paper's tokenizer: masks, what sees what, nested dropout."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.tokenizers.oat import Oat, OatConfig, early_weights, register_mask
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
    return iter(random.choose(codec.budgets).tolist())


@pytest.mark.parametrize("budgets", [None, (2, 3, 8), (8,)])
def test_slots_survive_with_the_papers_probability(budgets: tuple[int, ...] | None) -> None:
    codec = tiny(budgets=budgets)
    drawn = torch.tensor(list(draws(codec, 40_000)))
    trained = torch.tensor(codec.budgets)
    for slot in range(8):
        expected = (trained > slot).float().mean()
        assert abs((drawn > slot).float().mean() - expected) < 0.01


@given(st.integers(1, 64), st.floats(1, 1e6))
def test_weights_of_steps_have_mean_one_and_fall_by_equal_ratios(
    horizon: int, first: float
) -> None:
    weights_T = early_weights(horizon, first).double()
    assert weights_T.mean() == pytest.approx(1, rel=1e-5)
    ratios = weights_T[:-1] / weights_T[1:]
    assert ratios.tolist() == pytest.approx([ratios.mean().item()] * (horizon - 1), rel=1e-4)
    if horizon > 1:
        assert weights_T[0] / weights_T[-1] == pytest.approx(first, rel=1e-4)


def test_early_errors_cost_more_where_they_are_weighted() -> None:
    """The gradient of a chunk's first action grows, that of its last shrinks, their sum stays."""
    actions_BTA = torch.randn(64, 6, 3)
    gradients = []
    for weight in (1.0, 8.0):
        codec = tiny(early_weight=weight)
        shift_T1 = torch.zeros(6, 1, requires_grad=True)
        codec.head.register_forward_hook(lambda _, __, out, shift=shift_T1: out + shift)
        codec.loss(actions_BTA, SampleRandom(sample_keys(0, 0, torch.arange(64)))).total.backward()
        gradients.append(shift_T1.grad[:, 0])
    ratio_T = gradients[1] / gradients[0]
    assert ratio_T.tolist() == pytest.approx(early_weights(6, 8.0).tolist(), rel=1e-4)


def test_equal_weights_are_the_plain_mean_squared_error_and_are_not_written() -> None:
    codec, actions_BTA = tiny(budgets=(8,)), torch.randn(5, 6, 3)
    loss = codec.loss(actions_BTA, SampleRandom(sample_keys(0, 0, torch.arange(5)))).total
    plain = (codec.decode(codec.encode(actions_BTA)) - actions_BTA).square().mean()
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5)
    assert not any("step_weights" in name for name in codec.state_dict())


def test_overlap_costs_what_codes_one_step_later_are_away() -> None:
    actions_BTA = torch.randn(16, 6, 3)
    keys = sample_keys(0, 0, torch.arange(16))
    plain, weighted = tiny(), tiny(overlap_weight=0.5)
    weighted.load_state_dict(plain.state_dict())
    without, found = (codec.loss(actions_BTA, SampleRandom(keys)) for codec in (plain, weighted))
    later_BTA = torch.cat([actions_BTA[:, 1:], actions_BTA[:, -1:]], dim=1)
    now, later = (plain.quantizer.codes(plain.encode(x).ids) for x in (actions_BTA, later_BTA))
    away = (later - now).square().mean()
    assert found.parts["overlap_loss"].mean().item() == pytest.approx(away.item(), rel=1e-5)
    assert (found.total - without.total).item() == pytest.approx(away.item() / 2, rel=1e-4)
    assert "overlap_loss" not in without.parts


def test_overlap_of_a_chunk_that_stands_still_costs_nothing() -> None:
    """One step later the chunk is the same, and so are its codes: nothing pulls at them."""
    codec = tiny(overlap_weight=1.0)
    still_BTA = torch.randn(8, 1, 3).expand(8, 6, 3)
    loss = codec.loss(still_BTA, SampleRandom(sample_keys(0, 0, torch.arange(8))))
    assert loss.parts["overlap_loss"].abs().max() == 0


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
        ({"early_weight": 0.5}, "early_weight is 0.5, expected 1 or more"),
        ({"early_weight": float("nan")}, "early_weight is nan, expected 1 or more"),
        ({"overlap_weight": -1.0}, "overlap_weight is -1.0, expected 0 or more"),
        ({"overlap_weight": float("inf")}, "overlap_weight is inf, expected 0 or more"),
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
