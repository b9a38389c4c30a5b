"""Which episodes to open, as a command line says it: `3`, `0:50`, `100:`."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EpisodeNumbers:
    """Numbers of episodes, as ranges that may have no end.

    Attributes:
        ranges: Ranges, of which a number is in at least one.
    """

    ranges: tuple[range, ...]

    def __contains__(self, number: object) -> bool:
        return any(number in each for each in self.ranges)


def parse_episodes(words: Sequence[str]) -> EpisodeNumbers:
    """Numbers (`3`) and ranges without their end (`0:50`, `100:`, `:50`).

    Args:
        words: What follows `--episodes` on the command line.
    """
    return EpisodeNumbers(tuple(_parse(word) for word in words))


def indices_of(wanted: Container[int], numbers: NDArray[np.int64], root: Path) -> NDArray[np.int64]:
    """The indices of the wanted episodes; none at all is an error.

    Args:
        wanted: Numbers of the wanted episodes.
        numbers: (episodes,) number of each episode there is.
        root: Path of the dataset, for the message.
    """
    found = np.flatnonzero([number in wanted for number in numbers.tolist()])
    if not len(found):
        raise ValueError(
            f"none of the asked episodes (--episodes) is in {root}, whose episodes are "
            f"{numbers.min()} to {numbers.max()}"
        )
    return found


def _parse(word: str) -> range:
    matched = re.fullmatch(r"(\d*):(\d*)|(\d+)", word)
    if matched is None:
        raise ValueError(
            f"--episodes got {word!r}, expected numbers such as 3 or ranges such as 0:50"
        )
    first, end, single = matched.groups()
    if single:
        return range(int(single), int(single) + 1)
    found = range(int(first or 0), int(end or sys.maxsize))
    if not found:
        raise ValueError(f"--episodes got {word!r}, which holds no episode: it ends before {first}")
    return found
