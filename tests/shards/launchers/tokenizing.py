"""A command that runs in seconds and has several units: the tokens of a dataset of walks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import oatkit
from tests.jobs.walks import write_walks

NUM_UNITS = 5


@dataclass(frozen=True)
class Tokenizing:
    """The words of the command, and where its result goes."""

    words: list[str]
    out: Path
    cache: Path

    def tokens(self) -> dict[str, bytes]:
        """The files of the token cache."""
        return {path.name: path.read_bytes() for path in (self.cache / "tokens").iterdir()}


def tokenizing(folder: Path, name: str) -> Tokenizing:
    """The command on a dataset of five blocks of chunks.

    Args:
        folder: Folder of dataset and tokenizer, which are made once.
        name: Name of the folder of the shards, and of a cache of its own.
    """
    data, made, cache = folder / "walks.npz", folder / "bin", folder / f"{name}-cache"
    if not data.exists():
        dataset = oatkit.open_dataset(write_walks(data, 1000), cache_dir=folder / "first")
        oatkit.train_tokenizer(dataset, "bin", made, preset="tiny", horizon=8)
    out = folder / name
    words = ["data", "tokenize", str(data), "--tokenizer", str(made), "--device", "cpu"]
    words += ["--cache", str(cache), "--out", str(out)]
    return Tokenizing(words, out, cache)
