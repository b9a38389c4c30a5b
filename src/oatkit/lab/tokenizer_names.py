"""What the lab calls the tokenizers it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def tokenizer_names(folders: Sequence[Path]) -> Mapping[str, Path]:
    """Name of each folder: the last part of its path, and more parts where two would be alike."""
    names: dict[str, Path] = {}
    for folder in folders:
        parts = folder.resolve().parts[1:] or (str(folder),)
        taken = 1
        while (name := "/".join(parts[-taken:])) in names:
            if names[name].resolve() == folder.resolve():
                raise ValueError(f"{folder} is given twice")
            taken += 1
        names[name] = folder
    return names
