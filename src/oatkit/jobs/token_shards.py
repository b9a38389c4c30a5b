"""Blocks of a dataset's chunks as units of work: their tokens, written ahead of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oatkit.data import Dataset
from oatkit.jobs.token_cache import CHUNKS_PER_BLOCK, encode_block, token_paths, write_tokens
from oatkit.shards import ShardPlan
from oatkit.shards.unit_arrays import damaged, read_arrays, write_arrays
from oatkit.storage.digest import digest
from oatkit.tokenizers import ActionTokenizer

FILES = "tokens"


class TokenWork:
    """The tokens of a dataset; see `oatkit.shards.Work`.

    Args:
        tokenizer: Tokenizer that encodes the chunks.
        dataset: Episodes that a policy will be trained on.
        cache_dir: Folder of the cache that the tokens go to in the end; the dataset's by default.
    """

    name = "data tokenize"

    def __init__(
        self, tokenizer: ActionTokenizer, dataset: Dataset, cache_dir: Path | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._chunks = dataset.chunks(tokenizer.horizon)
        self._starts = {
            f"{start:012d}": start for start in range(0, len(self._chunks), CHUNKS_PER_BLOCK)
        }
        self.settings: dict[str, Any] = {
            "tokenizer": tokenizer.digest,
            "fingerprint": dataset.fingerprint,
            "num_chunks": len(self._chunks),
        }
        ids_path, ends_path = token_paths(tokenizer, dataset, cache_dir)
        self.facts: dict[str, Any] = {"ids": str(ids_path), "ends": str(ends_path)}

    def units(self) -> Sequence[str]:
        return list(self._starts)

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key in keys:
            ids, lengths = encode_block(self._tokenizer, self._chunks, self._starts[key])
            write_arrays(folder / FILES / f"{key}.npz", {"ids": ids, "lengths": lengths})
            yield key, {"digest": digest(ids.tobytes(), lengths.tobytes())}


def merge_tokens(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join blocks into the cache that `oatkit policy train` reads."""

    def blocks() -> Iterator[tuple[Any, Any]]:
        for key in plan.units:
            path = folder / FILES / f"{key}.npz"
            stored = read_arrays(path, folder, key)
            ids, lengths = stored["ids"], stored["lengths"]
            if digest(ids.tobytes(), lengths.tobytes()) != results[key]["digest"]:
                raise damaged(path, folder, key)
            yield ids, lengths

    ids_path, ends_path = Path(plan.facts["ids"]), Path(plan.facts["ends"])
    write_tokens(blocks(), ids_path, ends_path)
    return ids_path
