"""The steps by which actions are represented, each a pair that is applied and inverted.

A step changes its own dimensions of chunks in place; `Turn` makes other numbers of a rotation.
Chunks are (B, T, A) float64, the state at the start of each chunk is (B, S) in raw units.

Shape letters: B chunk, T step in the chunk, A action dimension, S state dimension, R dimension of a
rotation, F number of its other form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from oatkit.data.rotations import FORMS, read_rotations, write_rotations

Array = NDArray[np.float64]
Reference = Literal["absolute", "delta", "relative"]
HALF_TURN = float(np.float32(np.pi))


class ActionStep(Protocol):
    """A pair: what is done to actions before they are normalized, and how it is undone."""

    @property
    def dims(self) -> tuple[int, ...]:
        """The action dimensions that it changes."""

    def apply(self, actions_BTA: Array, state_BS: Array) -> None:
        """Change raw actions, in place."""

    def invert(self, actions_BTA: Array, state_BS: Array) -> None:
        """Change them back, in place."""


@dataclass(frozen=True)
class Unwrap:
    """Angles that go on past a full turn inside a chunk instead of jumping.

    Attributes:
        dims: Action dimensions that are angles.
        low: Smallest angle of the data.
        high: Largest angle, a full turn more.
        state_dims: Where the state has these angles, if they are relative to it: a chunk then
            begins at most half a turn away from it.
    """

    dims: tuple[int, ...]
    low: float = -HALF_TURN
    high: float = HALF_TURN
    state_dims: tuple[int, ...] = ()

    def apply(self, actions_BTA: Array, state_BS: Array) -> None:
        period, angles_BTA = self.high - self.low, actions_BTA[..., self.dims]
        if self.state_dims:
            off_BA = state_BS[:, self.state_dims] - angles_BTA[:, 0]
            angles_BTA = angles_BTA + period * np.round(off_BA / period)[:, None]
        actions_BTA[..., self.dims] = np.unwrap(angles_BTA, axis=1, period=period)

    def invert(self, actions_BTA: Array, state_BS: Array) -> None:
        period = self.high - self.low
        actions_BTA[..., self.dims] = self.low + np.mod(
            actions_BTA[..., self.dims] - self.low, period
        )


@dataclass(frozen=True)
class Relative:
    """Actions less the state at the start of their chunk.

    Attributes:
        dims: Action dimensions.
        state_dims: State dimension of each.
    """

    dims: tuple[int, ...]
    state_dims: tuple[int, ...]

    def apply(self, actions_BTA: Array, state_BS: Array) -> None:
        actions_BTA[..., self.dims] -= state_BS[:, None, self.state_dims]

    def invert(self, actions_BTA: Array, state_BS: Array) -> None:
        actions_BTA[..., self.dims] += state_BS[:, None, self.state_dims]


@dataclass(frozen=True)
class Delta:
    """Actions less the action before; the first one of a chunk stays as it is.

    Attributes:
        dims: Action dimensions.
    """

    dims: tuple[int, ...]

    def apply(self, actions_BTA: Array, state_BS: Array) -> None:
        actions_BTA[:, 1:, self.dims] = np.diff(actions_BTA[..., self.dims], axis=1)

    def invert(self, actions_BTA: Array, state_BS: Array) -> None:
        actions_BTA[..., self.dims] = np.cumsum(actions_BTA[..., self.dims], axis=1)


@dataclass(frozen=True)
class Binary:
    """Actions that are one of two values, such as a gripper's: each becomes the nearer one.

    Attributes:
        dims: Action dimensions.
        values: The two values; None until they are known: the smallest and largest of the data.
    """

    dims: tuple[int, ...]
    values: tuple[float, float] | None = None

    def apply(self, actions_BTA: Array, state_BS: Array) -> None:
        assert self.values is not None
        low, high = self.values
        is_high = actions_BTA[..., self.dims] > (low + high) / 2
        actions_BTA[..., self.dims] = np.where(is_high, high, low)

    def invert(self, actions_BTA: Array, state_BS: Array) -> None:
        self.apply(actions_BTA, state_BS)


@dataclass(frozen=True)
class Turn:
    """A rotation in another form, itself or as the turn from another rotation.

    Attributes:
        dims: Action dimensions that are the rotation.
        source: Form of the data; see `oatkit.data.rotations`.
        target: Form that networks compute with.
        reference: Whether it is the turn from the state's rotation, or from the action before.
        state_dims: Where the state has this rotation, in the same form, if it is relative.
        center: Mean of the data, which decides between numbers that mean the same rotation.
    """

    dims: tuple[int, ...]
    source: str
    target: str
    reference: Reference = "absolute"
    state_dims: tuple[int, ...] = ()
    center: tuple[float, ...] | None = None

    @property
    def width(self) -> int:
        """Number of numbers that it becomes."""
        return FORMS[self.target]

    def apply(self, actions_BTR: Array, state_BS: Array) -> Array:
        """The numbers of the other form, (B, T, F)."""
        shape = (*actions_BTR.shape[:2], self.width)
        found = read_rotations(self.source, _rows(actions_BTR), is_data=True)
        if self.reference == "relative":
            state_BTR = np.repeat(state_BS[:, None, self.state_dims], shape[1], axis=1)
            found = read_rotations(self.source, _rows(state_BTR), is_data=True).inv() * found
        elif self.reference == "delta":
            before = np.arange(len(found)) - 1
            is_first = np.arange(len(found)) % shape[1] == 0
            turned = write_rotations("quaternion", found[before].inv() * found)
            own = write_rotations("quaternion", found)
            kept = np.where(is_first[:, None], own, turned)
            found = read_rotations("quaternion", kept, is_data=True)
        return write_rotations(self.target, found).reshape(shape)

    def invert(self, numbers_BTF: Array, state_BS: Array) -> Array:
        """The numbers of the data's form, (B, T, R)."""
        shape = (*numbers_BTF.shape[:2], len(self.dims))
        found = read_rotations(self.target, _rows(numbers_BTF), is_data=False)
        if self.reference == "relative":
            state_BTR = np.repeat(state_BS[:, None, self.state_dims], shape[1], axis=1)
            found = read_rotations(self.source, _rows(state_BTR), is_data=True) * found
        elif self.reference == "delta":
            turns_BT4 = write_rotations("quaternion", found).reshape(*shape[:2], 4)
            now, steps = None, []
            for step in range(shape[1]):
                turn = read_rotations("quaternion", turns_BT4[:, step], is_data=False)
                now = turn if now is None else now * turn
                steps.append(write_rotations(self.source, now, self.center))
            return np.stack(steps, axis=1)
        return write_rotations(self.source, found, self.center).reshape(shape)


def _rows(values_BTF: Array) -> Array:
    return values_BTF.reshape(-1, values_BTF.shape[-1])
