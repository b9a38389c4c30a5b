"""What a tokenizer keeps about the data it was trained on, to notice data that are not like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oatkit.data import Dataset, Statistics

MAX_DRIFT = 0.25
"""Share of a dimension's 1 % to 99 % range in training by which its ends may move unnoticed."""


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data of a tokenizer."""

    statistics: Statistics
    """Statistics of the actions."""
    fingerprint: str = ""
    """Fingerprint of the dataset."""
    action_names: tuple[str, ...] = ()
    """Names of the action dimensions."""
    fps: float | None = None
    """Number of actions a second; None where nobody knows."""
    action_keys: tuple[str, ...] = ()
    """Columns that were read as the action; none in older artifacts."""
    action_dims: tuple[int, ...] | None = None
    """Dimensions of these columns that were kept; None for all."""
    state_keys: tuple[str, ...] = ()
    """Columns that were read as the state, where actions are relative to it."""

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> DataFacts:
        """The facts of a dataset."""
        transform = dataset.transform
        needs_state = transform is not None and transform.needs_state
        return cls(
            dataset.action_statistics(),
            dataset.fingerprint,
            dataset.action.names,
            dataset.fps,
            dataset.action.keys,
            dataset.action.dims,
            dataset.state.keys if dataset.state and needs_state else (),
        )

    def drift(self, now: Statistics, names: Sequence[str], fps: float | None) -> list[str]:
        """How actions differ from those of training, one sentence each.

        Args:
            now: Statistics of the actions.
            names: Names of their dimensions.
            fps: Number of actions a second.
        """
        then = self.statistics
        if now.dim != then.dim:
            return [f"actions have {now.dim} dimensions, fitted on {then.dim}"]
        found = []
        if self.fps and fps and self.fps != fps:
            found.append(f"fps is {fps:g}, fitted on {self.fps:g}")
        room = MAX_DRIFT * np.maximum(then.q99 - then.q01, 1e-6)
        for dim in range(then.dim):
            moved = max(abs(now.q01[dim] - then.q01[dim]), abs(now.q99[dim] - then.q99[dim]))
            if moved > room[dim]:
                found.append(
                    f"dimension {dim} ('{names[dim]}') drifted: 98 % lie between "
                    f"{now.q01[dim]:.4g} and {now.q99[dim]:.4g}, fitted on {then.q01[dim]:.4g} to "
                    f"{then.q99[dim]:.4g}"
                )
        return found

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return {
            "fingerprint": self.fingerprint,
            "action_names": list(self.action_names),
            "fps": self.fps,
            "action_keys": list(self.action_keys),
            "action_dims": None if self.action_dims is None else list(self.action_dims),
            "statistics": self.statistics.to_json(),
            **({"state_keys": list(self.state_keys)} if self.state_keys else {}),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DataFacts:
        """The inverse of `to_json`."""
        dims = values.get("action_dims")
        return cls(
            Statistics.from_json(values["statistics"]),
            values["fingerprint"],
            tuple(values["action_names"]),
            values["fps"],
            tuple(values.get("action_keys", ())),
            None if dims is None else tuple(dims),
            tuple(values.get("state_keys", ())),
        )
