"""`klt`: what every token takes off, and fitting."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.klt_cells import MAX_DIRECTIONS
from oatkit.tokenizers.klt_fit import MAX_BASIS, CellsName
from oatkit.tokenizers.klt_paths import Paths, advance
from oatkit.types import Tokens
from tests.nn.graph_safety import GraphSafe
from tests.tokenizers.small_tokenizers import clusters, make, walks

CELLS = get_args(CellsName)


def fitted(cells: str, count: int = 800) -> Klt:
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4), cells=cells))  # type: ignore[arg-type]
    codec.fit(lambda: iter(clusters(count, seed=1).split(100)))
    return codec


def errors(codec: Klt, chunks: Tensor) -> list[float]:
    tokens = codec.encode(chunks)
    return [float((codec.decode(tokens.prefix(k)) - chunks).square().mean()) for k in range(5)]


@pytest.mark.parametrize("cells", CELLS)
def test_every_token_takes_something_off_new_chunks(cells: str) -> None:
    found = errors(fitted(cells), clusters(300, seed=2))
    assert found == sorted(found, reverse=True)
    assert found[4] < 0.1 * found[0]


def test_a_token_that_chooses_its_cells_is_as_good_as_the_best_cells() -> None:
    unseen = clusters(300, seed=2)
    found = {cells: errors(fitted(cells), unseen)[1] for cells in CELLS}
    assert found["auto"] <= 1.1 * min(found.values())


def test_one_vector_finds_clusters_that_one_direction_cannot() -> None:
    unseen = clusters(300, seed=2)
    assert errors(fitted("vector"), unseen)[1] < 0.6 * errors(fitted("scalar"), unseen)[1]


@pytest.mark.parametrize("cells", ["vector", "drawn"])
def test_no_budget_makes_a_chunk_worse_than_the_one_before(cells: str) -> None:
    """Row 0 of every table is zero, and the best path goes on."""
    codec, chunks = fitted(cells), 5 * torch.randn(200, 4, 2)
    tokens = codec.encode(chunks)
    before = (codec.decode(tokens.prefix(0)) - chunks).square().sum(dim=(1, 2))
    for budget in codec.budgets:
        error = (codec.decode(tokens.prefix(budget)) - chunks).square().sum(dim=(1, 2))
        assert (error <= before + 1e-4).all()
        before = error


def test_looking_ahead_takes_more_off() -> None:
    codec, unseen = fitted("drawn"), clusters(300, seed=2)
    with_one_path = Paths.start((unseen.flatten(1) - codec.mean) @ codec.basis)
    for token in range(4):
        with_one_path = advance(with_one_path, codec.vector_tables()[token], 1)
    greedy = float(with_one_path.left.square().mean())
    assert errors(codec, unseen)[4] < greedy


def test_more_paths_take_more_off_and_decode_by_the_same_tables() -> None:
    codec, unseen = fitted("drawn"), clusters(300, seed=2)
    found = {}
    for paths in (1, 3, 16):
        codec.config = replace(codec.config, paths=paths)
        found[paths] = errors(codec, unseen)
    assert found[1][4] > found[3][4] > found[16][4]
    assert found[1][:3] == found[16][:3]  # budgets 1 and 2 have nothing between them


@pytest.mark.parametrize("paths", [0, 17])
def test_numbers_of_paths_that_no_search_can_keep(paths: int) -> None:
    with pytest.raises(ValueError, match=f"^paths is {paths}, expected 1 to 16$"):
        KltConfig(4, 2, paths=paths)


def test_a_chunk_unlike_most_is_followed_by_larger_steps() -> None:
    """Chunks of two sizes: what is left of the small ones is small too."""
    size = torch.tensor([0.05, 1.0]).repeat(1000)[:, None, None]
    chunks = size * torch.randn(2000, 4, 2, generator=torch.Generator().manual_seed(0))
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(8, 8)))
    codec.fit(lambda: iter(chunks.split(100)))
    tokens = codec.encode(chunks)
    gains = codec.gains[torch.arange(4), tokens.ids].cumsum(dim=1)[:, -1]
    assert gains[1::2].mean() - gains[::2].mean() > 1
    left = (codec.decode(tokens) - chunks).square().mean(dim=(1, 2))
    assert left[::2].mean() < 0.05 * left[1::2].mean()


def test_an_artifact_is_small() -> None:
    """34 dimensions, 32 steps, 16 tokens: 10 MB, however many directions the data has."""
    codec = Klt(KltConfig(32, 34))
    codec._make_buffers(MAX_BASIS, MAX_DIRECTIONS)
    assert sum(b.numel() * b.element_size() for b in codec.buffers()) < 10e6


def test_fitting_twice_gives_the_same() -> None:
    first, second = fitted("vector"), fitted("vector")
    for a, b in zip(first.buffers(), second.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("count", [1, 3, 30])
def test_fewer_chunks_than_vectors(cells: str, count: int) -> None:
    codec = fitted(cells, count)
    assert torch.isfinite(codec.decode(codec.encode(clusters(50, seed=2)))).all()


def test_tables_are_prepared_once_and_read_without_waiting() -> None:
    """A number that Python reads from a tensor makes a GPU wait; only the first call may."""
    codec, chunks = fitted("auto"), clusters(50, seed=2)
    wanted = codec.encode(chunks).ids
    tables = codec.vector_tables()
    with GraphSafe():
        found = codec.encode(chunks).ids
    torch.testing.assert_close(found, wanted)
    assert codec.vector_tables() is tables


def test_a_codec_that_is_written_to_or_loaded_encodes_as_the_new_one() -> None:
    chunks = clusters(50, seed=2)
    codec, other = fitted("vector"), fitted("drawn")
    for load in (codec.load_state_dict, lambda state: codec.load_state_dict(state, assign=True)):
        for source in (other, fitted("scalar")):
            codec.encode(chunks)
            load(copy.deepcopy(source.state_dict()))
            torch.testing.assert_close(codec.encode(chunks).ids, source.encode(chunks).ids)
    first = codec.encode(chunks).ids[:, 0]
    codec.rows[0] = codec.rows[0].flip(0)
    assert codec.encode(chunks).ids[:, 0].tolist() == (15 - first).tolist()


def test_prepared_tables_move_with_the_codec() -> None:
    codec, chunks = fitted("vector"), clusters(50, seed=2)
    wanted = codec.encode(chunks).ids
    codec.to(torch.float64)
    assert codec.vector_tables()[0].directions.dtype == torch.float64
    codec.to(torch.float32)
    torch.testing.assert_close(codec.encode(chunks).ids, wanted)
    held = [buffer.data_ptr() for buffer in codec.buffers()]
    codec._apply(torch.clone)
    tables = codec.vector_tables()
    assert tables[0].rows.data_ptr() == codec.rows.data_ptr()
    assert tables[0].rows.data_ptr() not in held


def test_a_copy_does_not_carry_prepared_tables() -> None:
    codec, chunks = fitted("vector"), clusters(50, seed=2)
    size = len(pickle.dumps(codec))
    wanted = codec.encode(chunks).ids
    assert len(pickle.dumps(codec)) == size
    torch.testing.assert_close(copy.deepcopy(codec).encode(chunks).ids, wanted)
    torch.testing.assert_close(pickle.loads(pickle.dumps(codec)).encode(chunks).ids, wanted)


def test_tables_prepared_for_inference_serve_gradients_too() -> None:
    codec, chunks = fitted("vector"), clusters(50, seed=2)
    with torch.inference_mode():
        wanted = codec.encode(chunks).ids.clone()
    found = codec.encode(chunks.requires_grad_()).ids
    assert found.tolist() == wanted.tolist()


def test_progress_ends_at_one() -> None:
    seen: list[float] = []
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4)))
    codec.fit(lambda: iter([clusters(100, seed=1)]), seen.append)
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_the_error_of_smooth_chunks_is_small() -> None:
    """RMS, normalized."""
    tokenizer = make("klt")
    decoded = tokenizer.normalizer.normalize(tokenizer.decode(tokenizer(walks())))
    error = decoded - tokenizer.normalizer.normalize(walks())
    assert np.sqrt(np.square(error).mean()) < 0.25


def test_a_codec_that_is_not_fitted_says_so() -> None:
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4)))
    for use in (
        lambda: codec.encode(torch.zeros(1, 4, 2)),
        lambda: codec.decode(Tokens.full(torch.zeros(1, 4, dtype=torch.int64))),
    ):
        with pytest.raises(ValueError, match="this klt tokenizer is not fitted yet: make one with"):
            use()
