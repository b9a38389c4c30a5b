"""Several datasets of different robots, sampled by weight.

    places   0 ...................................................... 2^32
    members  | metaworld, weight 0.5    | pusht, 0.3     | cr5, 0.2     |
    chunks   | 0 ................ last  | 0 ...... last  | 0 .... last  |

A place stands for a chunk of a dataset, and a dataset has as many places as its weight says: places
that are drawn evenly are a mixture by weight, the same in any number of processes and after a
restart, and nothing is stored.

Shape letters: B chunk.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.dataset import Dataset
from oatkit.data.formats.arrays import Given
from oatkit.data.open import open_dataset
from oatkit.errors import DatasetError, unknown_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NUM_PLACES = 2**32
MEMBER_SETTINGS = ("path", "weight", "action_key", "state_key", "action_dims", "actions", "fps")


@dataclass(frozen=True)
class Member:
    """A dataset of a mixture.

    Attributes:
        name: Name of the embodiment: the robot and its action space.
        dataset: Demonstrations of it.
        weight: Share of the samples that come from it, as a number beside those of the others.
    """

    name: str
    dataset: Dataset
    weight: float = 1.0


@dataclass(frozen=True)
class Mixture:
    """Datasets that may differ in robot, action dimensions, rate and cameras.

    Attributes:
        members: The datasets.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("a mixture needs at least one dataset")
        names = [member.name for member in self.members]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two datasets of the mixture are named {twice!r}: name one otherwise")
        for member in self.members:
            if not 0 <= member.weight < math.inf:
                raise ValueError(
                    f"the weight of {member.name!r} is {member.weight}, expected 0 or more"
                )
        if not sum(member.weight for member in self.members):
            raise ValueError(f"the weights of {', '.join(names)} sum to 0: give one of them more")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    @property
    def shares(self) -> NDArray[np.float64]:
        """(members,): share of the samples that come from each dataset."""
        weights = np.array([member.weight for member in self.members])
        return weights / weights.sum()

    @property
    def represented_dim(self) -> int:
        """Number of dimensions of the widest representation of actions."""
        return max(member.dataset.represented_dim for member in self.members)

    def __getitem__(self, name: str) -> Dataset:
        """The dataset of an embodiment."""
        for member in self.members:
            if member.name == name:
                return member.dataset
        raise ValueError(unknown_name("embodiment", name, self.names))

    def split(self, fraction: float = 0.1, *, seed: int = 0) -> tuple[Mixture, Mixture]:
        """Two mixtures: to train on, and held out with `fraction` of the episodes of each."""
        parts = [member.dataset.split(fraction, seed=seed) for member in self.members]
        train, held_out = (
            tuple(replace(m, dataset=p[side]) for m, p in zip(self.members, parts, strict=True))
            for side in (0, 1)
        )
        return Mixture(train), Mixture(held_out)

    def locate(
        self, place_B: NDArray[np.int64], num_chunks: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The dataset and the chunk of it that each place in 0 .. `NUM_PLACES` - 1 stands for.

        Args:
            place_B: Places.
            num_chunks: Number of chunks of each dataset.
        """
        end_M = np.round(np.cumsum(self.shares) * NUM_PLACES).astype(np.int64)
        start_M = np.concatenate([[0], end_M[:-1]])
        member_B = np.searchsorted(end_M, place_B, side="right")
        into_B = place_B - start_M[member_B]
        size_B = (end_M - start_M)[member_B]
        # in floats: the product of a place and a number of chunks may not fit in 64 bits
        chunk_B = np.floor(into_B / size_B * np.asarray(num_chunks)[member_B]).astype(np.int64)
        return member_B, np.minimum(chunk_B, np.asarray(num_chunks)[member_B] - 1)


def even_places(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Some of `count` places at even distances, by their numbers 0 .. `count` - 1."""
    return np.floor((numbers + 0.5) * (NUM_PLACES / count)).astype(np.int64)


def open_mixture(
    datasets: Mapping[str, Any] | Sequence[Any],
    weights: Mapping[str, float] | Sequence[float] | None = None,
    **how: Any,
) -> Mixture:
    """Open several datasets as one mixture.

    Args:
        datasets: Datasets or paths (what `open_dataset` takes), by the names of their embodiments,
            or in a list; those in a list are named after their paths.
        weights: Weight of each, by name or in the same order; by default as many samples come from
            each.
        how: Further arguments of `open_dataset` for all that are not open yet.
    """
    if isinstance(datasets, Mapping):
        named = list(datasets.items())
    else:
        named = [(_name(one), one) for one in datasets]
    if weights is None:
        weights = [1.0] * len(named)
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in dict(named):
                raise ValueError(unknown_name("embodiment", name, dict(named)))
        weights = [weights.get(name, 1.0) for name, _ in named]
    if len(weights) != len(named):
        raise ValueError(f"there are {len(weights)} weights for {len(named)} datasets")
    return Mixture(
        tuple(
            Member(name, one if isinstance(one, Dataset) else open_dataset(one, **how), float(w))
            for (name, one), w in zip(named, weights, strict=True)
        )
    )


def read_mixture(text: str, **how: Any) -> Mixture | None:
    """The mixture that `--data` names: `a=0.7,b=0.3`, or a TOML file; None for a single dataset.

    A TOML file has a table for each embodiment, with `path`, `weight` and arguments of
    `open_dataset`; paths are relative to the file.

    Args:
        text: What was typed.
        how: Arguments of `open_dataset` for all, which a table may overrule.
    """
    if text.endswith(".toml"):
        return _from_toml(Path(text), how)
    parts = [part.rpartition("=") for part in text.split(",")]
    if Path(text).exists() or not all(path and _is_number(weight) for path, _, weight in parts):
        return None
    members = [
        Member(_name(path), open_dataset(path, **how), float(weight)) for path, _, weight in parts
    ]
    return Mixture(tuple(members))


def _from_toml(path: Path, how: Mapping[str, Any]) -> Mixture:
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DatasetError(f"{path} is no readable mixture ({error})") from error
    members = []
    for name, table in tables.items():
        if not isinstance(table, dict) or "path" not in table:
            raise DatasetError(f"{path}: {name!r} has no path: a table [{name}] with path = ...")
        for key in table:
            if key not in MEMBER_SETTINGS:
                raise DatasetError(
                    f"{path}: {unknown_name(f'key of {name}', key, MEMBER_SETTINGS)}"
                )
        own = {key: value for key, value in table.items() if key not in ("path", "weight")}
        where = path.parent / table["path"]
        opened = open_dataset(where if where.exists() else table["path"], **{**how, **own})
        members.append(Member(name, opened, float(table.get("weight", 1.0))))
    return Mixture(tuple(members))


def _name(dataset: Dataset | str | os.PathLike[str] | Given) -> str:
    """The name of an embodiment that has none: that of its path."""
    if isinstance(dataset, Dataset):
        return dataset.path.stem
    if isinstance(dataset, str | os.PathLike):
        return Path(dataset).stem
    raise ValueError("arrays have no name: give datasets by their names, {'robot': ...}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
