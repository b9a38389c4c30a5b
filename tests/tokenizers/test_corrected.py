"""A learned correction of tables: it helps where it helps, and is nothing elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oatkit.tokenizers import corrected
from oatkit.tokenizers.codec import written_settings
from oatkit.tokenizers.corrected import Corrected, _held_out
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.types import Tokens

CONFIG = KltConfig(horizon=4, action_dim=2, num_tokens=4, levels=(4,), correct=True)
BUDGETS = (1, 2, 4)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrected, "STEPS", 120)
    monkeypatch.setattr(corrected, "EVALUATE_EVERY", 40)


def circle(count: int, seed: int) -> Tensor:
    """Chunks on a curve, which sums of tables cut its corners of: (N, 4, 2)."""
    turn_N = torch.rand(count, generator=torch.Generator().manual_seed(seed)) * 6.28
    angle_NT = turn_N[:, None] + torch.arange(4) * 0.5
    return torch.stack([angle_NT.cos(), angle_NT.sin()], dim=-1)


def noise(count: int, seed: int) -> Tensor:
    return torch.randn(count, 4, 2, generator=torch.Generator().manual_seed(seed))


def fitted(chunks_NTA: Tensor, config: KltConfig = CONFIG) -> Corrected:
    torch.manual_seed(0)
    codec = Corrected(config)
    codec.fit(lambda: iter(chunks_NTA.split(100)))
    return codec


def error(codec: Corrected | Klt, chunks_NTA: Tensor, budget: int) -> float:
    decoded_NTA = codec.decode(codec.encode(chunks_NTA).prefix(budget))
    return float((decoded_NTA - chunks_NTA).square().mean())


@pytest.fixture(scope="module")
def on_circle() -> Corrected:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corrected, "STEPS", 300)
        patch.setattr(corrected, "EVALUATE_EVERY", 100)
        return fitted(circle(700, seed=0))


def test_the_ids_are_those_of_the_tables_and_the_error_falls(on_circle: Corrected) -> None:
    plain, unseen = Klt(replace(CONFIG, correct=False)), circle(300, seed=1)
    plain.fit(lambda: iter(circle(700, seed=0).split(100)))
    assert torch.equal(on_circle.encode(unseen).ids, plain.encode(unseen).ids)
    kept = [budget for budget in BUDGETS if on_circle.scale[budget] > 0]
    assert kept
    assert on_circle.kept() is on_circle
    for budget in kept:
        assert error(on_circle, unseen, budget) < error(plain, unseen, budget)
    assert on_circle.describe().startswith("the correction lowers the error of chunks not seen by")


def test_where_nothing_can_be_learned_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrected, "WORTH", 0.0)
    chunks_NTA = noise(200, seed=0)
    codec, plain = fitted(chunks_NTA), Klt(replace(CONFIG, correct=False))
    plain.fit(lambda: iter(chunks_NTA.split(100)))
    unseen = noise(50, seed=1)
    for budget in BUDGETS:
        tokens = codec.encode(unseen).prefix(budget)
        assert torch.equal(codec.decode(tokens), plain.decode(tokens))
    assert codec.kept() is codec.tables
    assert codec.describe() == (
        "the correction did not lower the error of chunks not seen: it was left out"
    )


def test_an_untrained_one_is_zero_and_no_tokens_are_never_corrected(on_circle: Corrected) -> None:
    fresh = Corrected(CONFIG)
    fresh.tables.fit(lambda: iter([circle(100, seed=0)]))
    tokens = Tokens.full(torch.zeros(3, 4, dtype=torch.int64))
    assert torch.equal(fresh.decode(tokens), fresh.tables.decode(tokens))
    none = tokens.prefix(0)
    assert torch.equal(on_circle.decode(none), on_circle.tables.decode(none))


def test_fitting_twice_gives_the_same() -> None:
    one, other = (fitted(circle(200, seed=0)) for _ in range(2))
    for mine, its in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, its)


def test_the_setting_is_written_only_where_it_is_on() -> None:
    """Digests of older artifacts stay what they were."""
    assert written_settings(CONFIG)["correct"] is True
    assert "correct" not in written_settings(replace(CONFIG, correct=False))


def test_held_out_chunks_are_long_stretches() -> None:
    is_held_out = _held_out(700)
    assert is_held_out.sum() == 100
    assert int((is_held_out[1:] != is_held_out[:-1]).sum()) == 19
