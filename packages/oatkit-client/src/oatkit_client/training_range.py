"""States far outside of what a policy was trained on: degrees for radians, another robot's joints.

    training data            |-----------|
    warned about   ------|                   |------      further off than the range is wide

A policy answers such a state as if nothing were wrong, with actions that mean nothing.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

FAR = {"min_max": 3.0, "quantiles": 3.0, "mean_std": 15.0}
"""Largest normalized value that is not far off, by the mode of the normalizer; the data are within
1, or within some 5 standard deviations."""


class FarValue(NamedTuple):
    """A value that is far outside of the training data."""

    name: str
    """Name of its dimension."""
    sentence: str
    """What is wrong."""


class TrainingRange:
    """The range of each dimension of the state in the training data.

    Args:
        normalization: Normalizer of the state as its JSON: `mode`, `offset` and `scale`; None for a
            policy that reads no state.
        names: Names of the dimensions; their numbers where there are none.
    """

    def __init__(self, normalization: Mapping[str, Any] | None, names: Sequence[str] = ()) -> None:
        far = FAR.get("" if normalization is None else normalization["mode"])
        self._offset_S = self._room_S = self._width_S = np.zeros(0)
        if normalization is not None and far is not None:
            self._offset_S = np.asarray(normalization["offset"], np.float64)
            self._width_S = np.asarray(normalization["scale"], np.float64) * (far / 3)
            self._room_S = 3 * self._width_S
        dim = len(self._offset_S)
        self._names = list(names) if len(names) == dim else [str(index) for index in range(dim)]

    def find_far(self, state: Any) -> FarValue | None:
        """The value that is furthest off, relative to its range, or None where none is far.

        Args:
            state: (..., state_dim) raw units. One of another size is left to others to refuse.
        """
        values = np.asarray(state, np.float64)
        if not len(self._offset_S) or values.shape[-1:] != self._offset_S.shape:
            return None
        values_NS = values.reshape(-1, len(self._offset_S))
        excess_NS = np.abs(values_NS - self._offset_S) / self._room_S
        row, dim = np.unravel_index(np.argmax(excess_NS), excess_NS.shape)
        if not excess_NS[row, dim] > 1:
            return None
        low, high = (self._offset_S + side * self._width_S for side in (-1, 1))
        name = self._names[dim]
        return FarValue(
            name,
            f"the state is far outside of the training data: {name} is {values_NS[row, dim]:.4g}, "
            f"in training it was {low[dim]:.4g} to {high[dim]:.4g}; are units and order the same?",
        )
