"""What is special about the analytic kind, and about a tail of it behind learned tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oatkit.tokenizers import make_codec, make_config
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.refined import Refined
from oatkit.types import Schedule, Tokens


def clusters(count: int, seed: int) -> Tensor:
    """(N, 4, 2): chunks near one of 12 centers, the same for all seeds."""
    centers = 3 * torch.randn(12, 4, 2, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    which = torch.randint(12, (count,), generator=random)
    return centers[which] + 0.1 * torch.randn(count, 4, 2, generator=random)


def fitted(cells: str, count: int = 800) -> Klt:
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4), cells=cells))  # type: ignore[arg-type]
    codec.fit(lambda: iter(clusters(count, seed=1).split(100)))
    return codec


def errors(codec: Klt, chunks: Tensor) -> list[float]:
    tokens = codec.encode(chunks)
    return [float((codec.decode(tokens.prefix(k)) - chunks).square().mean()) for k in range(5)]


@pytest.mark.parametrize("cells", ["vector", "scalar"])
def test_every_token_takes_something_off_new_chunks(cells: str) -> None:
    found = errors(fitted(cells), clusters(300, seed=2))
    assert found == sorted(found, reverse=True)
    assert found[4] < 0.02 * found[0]


def test_one_vector_finds_clusters_that_one_direction_cannot() -> None:
    unseen = clusters(300, seed=2)
    assert errors(fitted("vector"), unseen)[1] < 0.6 * errors(fitted("scalar"), unseen)[1]


def test_no_token_ever_makes_a_chunk_worse() -> None:
    """Row 0 of every table is zero, and the nearest row is taken."""
    codec, chunks = fitted("vector"), 5 * torch.randn(200, 4, 2)
    tokens = codec.encode(chunks)
    before = torch.full((200,), torch.inf)
    for k in range(5):
        error = (codec.decode(tokens.prefix(k)) - chunks).square().sum(dim=(1, 2))
        assert (error <= before + 1e-4).all()
        before = error


def test_fitting_twice_gives_the_same() -> None:
    first, second = fitted("vector"), fitted("vector")
    torch.testing.assert_close(first.tables, second.tables, rtol=0, atol=0)


@pytest.mark.parametrize("cells", ["vector", "scalar"])
@pytest.mark.parametrize("count", [1, 3, 30])
def test_fewer_chunks_than_vectors(cells: str, count: int) -> None:
    codec = fitted(cells, count)
    assert torch.isfinite(codec.decode(codec.encode(clusters(50, seed=2)))).all()


def test_progress_ends_at_one() -> None:
    seen: list[float] = []
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4)))
    codec.fit(lambda: iter([clusters(100, seed=1)]), seen.append)
    assert seen == [0.25, 0.5, 0.75, 1.0]


# A learned prefix and an analytic tail


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
