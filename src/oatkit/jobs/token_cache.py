"""The tokens of a dataset's chunks, computed once and kept on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from oatkit.data import Dataset
from oatkit.storage.atomic_write import atomic_write
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Tokens

CHUNKS_PER_BLOCK = 4096


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
    key = f"{tokenizer.digest}-{dataset.fingerprint}"
    folder = (cache_dir or dataset.cache_dir) / "tokens"
    folder.mkdir(parents=True, exist_ok=True)
    ids_path, ends_path = folder / f"{key}.ids", folder / f"{key}.ends.npy"
    if not ends_path.exists():
        chunks = dataset.chunks(tokenizer.horizon)
        lengths: list[NDArray[np.int64]] = []
        with atomic_write(ids_path) as aside, aside.open("wb") as file:
            for start in range(0, len(chunks), CHUNKS_PER_BLOCK):
                indices = np.arange(start, min(len(chunks), start + CHUNKS_PER_BLOCK))
                state_BS = chunks.start_states(indices) if tokenizer.needs_state else None
                tokens = tokenizer.encode(chunks.actions(indices)[0], state_BS)
                is_real = np.arange(tokens.ids.shape[1]) < tokens.lengths.numpy()[:, None]
                file.write(tokens.ids.numpy()[is_real].astype(np.int32).tobytes())
                lengths.append(tokens.lengths.numpy())
        with atomic_write(ends_path) as aside, aside.open("wb") as file:
            np.save(file, np.cumsum(np.concatenate(lengths)))
    return TokenTable(ids_path, ends_path)
