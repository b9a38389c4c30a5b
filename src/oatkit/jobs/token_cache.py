"""The tokens of a dataset's chunks, computed once and kept on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from oatkit.data import Chunks, Dataset
from oatkit.storage.atomic_write import atomic_write
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Tokens

CHUNKS_PER_BLOCK = 4096

Block = tuple[NDArray[np.int32], NDArray[np.int64]]
"""The ids of some chunks one after the other, and how many each chunk has."""


class TokenTable:
    """Memory-mapped tokens, one row for every chunk of a dataset.

    Args:
        ids: File of all ids one after the other.
        ends: File of (rows,) places, where each row ends.
    """

    def __init__(self, ids: Path, ends: Path) -> None:
        self._paths = (ids, ends)
        self._ids = np.asarray(np.memmap(ids, np.int32, "r"))
        self._ends = np.asarray(np.load(ends, mmap_mode="r"))

    def __reduce__(self) -> tuple[type[TokenTable], tuple[Path, Path]]:
        """Another process maps the files again instead of getting what they hold."""
        return TokenTable, self._paths

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._ends)

    def take(self, rows: NDArray[np.int64]) -> Tokens:
        """The tokens of some rows, as wide as the longest."""
        end_B = self._ends[rows]
        start_B = np.where(rows > 0, self._ends[rows - 1], 0)
        length_B = end_B - start_B
        slot_K = np.arange(max(1, length_B.max(initial=0)))
        is_real_BK = slot_K < length_B[:, None]
        places_BK = np.where(is_real_BK, start_B[:, None] + slot_K, 0)
        ids_BK = np.where(is_real_BK, self._ids[places_BK], 0).astype(np.int64)
        return Tokens(torch.from_numpy(ids_BK), torch.from_numpy(length_B))


def cached_tokens(
    tokenizer: ActionTokenizer, dataset: Dataset, cache_dir: Path | None = None
) -> TokenTable:
    """The tokens of `dataset.chunks(horizon)`, from the cache if they are there.

    Args:
        tokenizer: Tokenizer that encodes the chunks.
        dataset: Demonstrations.
        cache_dir: Folder of the cache; the dataset's own by default.
    """
    ids_path, ends_path = token_paths(tokenizer, dataset, cache_dir)
    if not ends_path.exists():
        chunks = dataset.chunks(tokenizer.horizon)
        starts = range(0, len(chunks), CHUNKS_PER_BLOCK)
        blocks = (encode_block(tokenizer, chunks, start) for start in starts)
        write_tokens(blocks, ids_path, ends_path)
    return TokenTable(ids_path, ends_path)


def token_paths(
    tokenizer: ActionTokenizer, dataset: Dataset, cache_dir: Path | None = None
) -> tuple[Path, Path]:
    """Where the tokens of a dataset are kept: the file of the ids, and that of the rows' ends."""
    folder = (cache_dir or dataset.cache_dir) / "tokens"
    key = f"{tokenizer.digest}-{dataset.fingerprint}"
    return folder / f"{key}.ids", folder / f"{key}.ends.npy"


def encode_block(tokenizer: ActionTokenizer, chunks: Chunks, start: int) -> Block:
    """The tokens of the block of chunks that begins at `start`."""
    indices = np.arange(start, min(len(chunks), start + CHUNKS_PER_BLOCK))
    state_BS = chunks.start_states(indices) if tokenizer.needs_state else None
    tokens = tokenizer.encode(chunks.actions(indices)[0], state_BS)
    lengths = tokens.lengths.numpy()
    is_real = np.arange(tokens.ids.shape[1]) < lengths[:, None]
    return tokens.ids.numpy()[is_real].astype(np.int32), lengths


def write_tokens(blocks: Iterable[Block], ids_path: Path, ends_path: Path) -> None:
    """Write the tokens of all blocks, in order."""
    lengths: list[NDArray[np.int64]] = []
    ids_path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(ids_path) as aside, aside.open("wb") as file:
        for ids, own_lengths in blocks:
            file.write(ids.tobytes())
            lengths.append(own_lengths)
    with atomic_write(ends_path) as aside, aside.open("wb") as file:
        np.save(file, np.cumsum(np.concatenate(lengths)))
