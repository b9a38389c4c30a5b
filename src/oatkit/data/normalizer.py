"""Raw units to normalized units and back, by LeRobot's modes.

Actions may be represented in another way first, such as relative to the state: see
`oatkit.data.action_transform`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from oatkit.data.action_transform import ActionTransform
from oatkit.data.statistics import Statistics
from oatkit.errors import unknown_name
from oatkit.types import NormalizationMode

if TYPE_CHECKING:
    import torch

    ArrayT = TypeVar("ArrayT", NDArray[np.floating], torch.Tensor)

SMALLEST_SCALE = 1e-30
"""Below this a dimension counts as constant: float32 could not divide by it."""

MODES: tuple[str, ...] = get_args(NormalizationMode)


@dataclass(frozen=True, eq=False)
class Normalizer:
    """`(x - offset) / scale` in every dimension; `offset` and `scale` are (dim,) float64.

    | mode        | offset            | scale             | the data become          |
    |-------------|-------------------|-------------------|--------------------------|
    | `min_max`   | (max + min) / 2   | (max - min) / 2   | [-1, 1]                  |
    | `quantiles` | (q99 + q01) / 2   | (q99 - q01) / 2   | [-1, 1] but for the tails |
    | `mean_std`  | mean              | std               | zero mean, unit variance |
    | `identity`  | 0                 | 1                 | themselves               |

    A dimension whose scale would be 0 (below `SMALLEST_SCALE`) takes scale 1: a constant becomes
    0 and comes back exact. (LeRobot divides by 1e-8 there, and float noise becomes huge.)

    With a `transform`, actions are represented by it first. `offset` and `scale` are (steps, dim)
    where the first step of a chunk is of another size than the others.

    Dimensions that `is_held` names come back as their offset whatever is given. Actions that were
    always the same are held: what a network makes of a constant is never exact, and a controller
    may do something else for 0 than for nearly 0 (robosuite's holds the hand's turn at 0 alone).
    """

    mode: NormalizationMode
    offset: NDArray[np.float64]
    scale: NDArray[np.float64]
    transform: ActionTransform | None = None
    is_held: NDArray[np.bool_] | None = None

    @classmethod
    def fit(
        cls,
        statistics: Statistics,
        mode: NormalizationMode = "min_max",
        *,
        holds_constants: bool = False,
    ) -> Normalizer:
        """The normalizer of some data.

        Args:
            statistics: What the data are.
            mode: How they are normalized.
            holds_constants: Whether dimensions with a single value are held.
        """
        s = statistics
        if mode == "min_max":
            offset, scale = (s.max + s.min) / 2, (s.max - s.min) / 2
        elif mode == "quantiles":
            offset, scale = (s.q99 + s.q01) / 2, (s.q99 - s.q01) / 2
        elif mode == "mean_std":
            offset, scale = s.mean, s.std
        elif mode == "identity":
            offset, scale = np.zeros(s.dim), np.ones(s.dim)
        else:
            raise ValueError(unknown_name("normalization mode", mode, MODES))
        is_held = (s.max == s.min) & (holds_constants and mode != "identity")
        offset = np.where(is_held, s.min, offset)  # means are off by their rounding
        scale = np.where(is_held | (scale <= SMALLEST_SCALE), 1.0, scale)
        return cls(mode, offset, scale, is_held=is_held if is_held.any() else None)

    @property
    def dim(self) -> int:
        """Number of normalized dimensions."""
        return int(self.offset.shape[-1])

    @property
    def raw_dim(self) -> int:
        """Number of raw dimensions, which a transform may make others of."""
        return self.dim if self.transform is None else self.transform.action_dim

    @property
    def spread(self) -> NDArray[np.float64]:
        """What `unnormalize` multiplies by: the scale, and 0 in dimensions that are held."""
        return self.scale if self.is_held is None else np.where(self.is_held, 0.0, self.scale)

    def normalize(self, values: ArrayT, state: Any = None) -> ArrayT:
        """Raw to normalized; (..., dim) numpy or torch, float dtype and device are kept.

        Args:
            values: What is normalized.
            state: Raw state at the start of each chunk, (B, state_dim), where a transform needs it.
        """
        values = _as_floats(values)
        if self.transform is not None:
            values = self.transform.apply(values, state)
        offset, scale = self._constants_like(values, self.scale)
        return (values - offset) / scale

    def unnormalize(self, values: ArrayT, state: Any = None) -> ArrayT:
        """Normalized to raw: the inverse of `normalize` but for dimensions that are held."""
        values = _as_floats(values)
        offset, spread = self._constants_like(values, self.spread)
        raw: ArrayT = values * spread + offset
        return raw if self.transform is None else self.transform.invert(raw, state)

    def _constants_like(self, values: Any, factor: NDArray[np.float64]) -> tuple[Any, Any]:
        if values.shape[-1:] != (self.dim,):
            raise ValueError(
                f"the last axis of {tuple(values.shape)} is not the {self.dim} dimensions "
                "of the normalizer"
            )
        if isinstance(values, np.ndarray):
            return self.offset.astype(values.dtype), factor.astype(values.dtype)
        return values.new_tensor(self.offset), values.new_tensor(factor)

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "offset": self.offset.tolist(),
            "scale": self.scale.tolist(),
            **({} if self.transform is None else {"transform": self.transform.to_json()}),
            **({} if self.is_held is None else {"is_held": self.is_held.tolist()}),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Normalizer:
        if values["mode"] not in MODES:
            raise ValueError(unknown_name("normalization mode", values["mode"], MODES))
        transform, is_held = values.get("transform"), values.get("is_held")
        return cls(
            values["mode"],
            np.asarray(values["offset"]),
            np.asarray(values["scale"]),
            None if transform is None else ActionTransform.from_json(transform),
            None if is_held is None else np.asarray(is_held, bool),
        )


def _as_floats(values: Any) -> Any:
    """Integers and lists as float32, so that the constants are not rounded to integers."""
    if hasattr(values, "is_floating_point"):
        return values if values.is_floating_point() else values.float()
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float32)
