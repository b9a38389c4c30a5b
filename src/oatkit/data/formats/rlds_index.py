"""Where the episodes of an RLDS dataset lie, found once by reading its files from front to back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oatkit.data.column_cache import file_facts
from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.formats.tfrecord import Span, map_file, read_records
from oatkit.data.reading_progress import reading_progress
from oatkit.data.source import Opening
from oatkit.errors import DatasetError
from oatkit.storage.atomic_write import atomic_write
from oatkit.storage.digest import digest

VERSION = 1

Measure = Callable[[memoryview, Span], tuple[int, Iterable[str]]]
"""Gives the number of steps of a record, and its instructions."""


@dataclass(frozen=True)
class EpisodeIndex:
    """Where every episode lies.

    Attributes:
        file_of: (episodes,) index of each episode's file.
        spans: (episodes, 2) first byte of each record, and the byte after its last.
        lengths: (episodes,) steps of each episode.
        tasks: Distinct instructions.
    """

    file_of: NDArray[np.int64]
    spans: NDArray[np.int64]
    lengths: NDArray[np.int64]
    tasks: list[str]


def find_episodes(
    paths: Sequence[Path], measure: Measure, about: str, opening: Opening
) -> EpisodeIndex:
    """The episodes of some files; from the cache where they were found before.

    Args:
        paths: TFRecord files.
        measure: Gives the number of steps of a record, and its instructions.
        about: What `measure` depends on, beside the files.
        opening: Where the cache is, and whether to show a bar.
    """
    key = digest(f"{VERSION}\0RLDS\0{about}".encode(), *file_facts(paths))
    path = opening.cache_dir / "data" / key / "episodes.npz"
    if not path.exists():
        index = _read_all(paths, measure, opening)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as aside, aside.open("wb") as file:
            np.savez(
                file,
                file_of=index.file_of,
                spans=index.spans,
                lengths=index.lengths,
                tasks=np.frombuffer(json.dumps(index.tasks).encode(), np.uint8),
            )
        return index
    with np.load(path) as stored:
        tasks = json.loads(stored["tasks"].tobytes())
        return EpisodeIndex(stored["file_of"], stored["spans"], stored["lengths"], tasks)


def _read_all(paths: Sequence[Path], measure: Measure, opening: Opening) -> EpisodeIndex:
    tasks: dict[str, None] = {}
    rows: list[tuple[int, int, int, int]] = []
    num_bytes = sum(path.stat().st_size for path in paths)
    with reading_progress("episodes", num_bytes, is_shown=opening.show_progress) as advance:
        for number, path in enumerate(paths):
            for span, length, instructions in _read_file(path, measure):
                tasks.update(dict.fromkeys(instructions))
                rows.append((number, *span, length))
                advance(span[1] - span[0])
    table = np.array(rows, np.int64).reshape(-1, 4)
    return EpisodeIndex(table[:, 0], table[:, 1:3], table[:, 3], list(tasks))


def _read_file(path: Path, measure: Measure) -> Iterator[tuple[Span, int, Iterable[str]]]:
    stated = _stated_count(path)
    num_records = 0
    for span in read_records(path):
        with errors_naming(path, f"record {num_records}"):
            length, instructions = measure(map_file(path), span)
        yield span, length, instructions
        num_records += 1
    if stated is not None and num_records != stated:
        raise DatasetError(
            f"{path} holds {num_records} episodes but dataset_info.json says {stated}: the file is "
            "incomplete or of another version"
        )


def _stated_count(path: Path) -> int | None:
    """The number of episodes of a file by `dataset_info.json`; None where that does not say."""
    described = path.parent / "dataset_info.json"
    if not described.is_file():
        return None
    with errors_naming(described):
        for split in json.loads(described.read_text()).get("splits", ()):
            counts = split.get("shardLengths", ())
            for number, count in enumerate(counts):
                if path.name.endswith(
                    f"{split['name']}.tfrecord-{number:05d}-of-{len(counts):05d}"
                ):
                    return int(count)
    return None
