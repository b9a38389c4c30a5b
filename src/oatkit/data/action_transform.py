"""How actions are represented before they are normalized: absolute, delta, relative, as rotations.

    raw action ── unwrap, binary ── delta, relative ── rotations ── normalizer ── codec, network
    raw action ── unwrap, binary ── delta, relative ── rotations ── normalizer ── and back

`oatkit.data.action_words` reads and prints what is done, `oatkit.data.action_steps` does it.

Shape letters: B chunk, T step in the chunk, A action dimension, E dimension of the representation,
S state dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.action_steps import ActionStep, Array, Binary, Delta, Relative, Turn
from oatkit.data.action_words import print_actions, read_actions
from oatkit.data.statistics import Statistics


@dataclass(frozen=True)
class ActionTransform:
    """What is done to raw chunks before they are normalized, and undone after.

    Attributes:
        action_dim: Number of raw action dimensions.
        state_dim: Number of state dimensions; 0 where the state is not needed.
        steps: What changes numbers, in the order in which it is done.
        turns: What makes other numbers of rotations, which are done last.
    """

    action_dim: int
    state_dim: int
    steps: tuple[ActionStep, ...]
    turns: tuple[Turn, ...]

    @classmethod
    def parse(
        cls, words: str | Sequence[str], action_names: Sequence[str], state_names: Sequence[str]
    ) -> ActionTransform:
        """The transform of words such as `relative:0-5 binary:6`; see `oatkit.data.action_words`.

        Args:
            words: One step each, or a text of them.
            action_names: Names of the action dimensions.
            state_names: Names of the state dimensions; none where there is no state.
        """
        steps, turns = read_actions(words, tuple(action_names), tuple(state_names))
        state_dim = len(state_names) if _needs_state(steps, turns) else 0
        return cls(len(action_names), state_dim, steps, turns)

    @property
    def dim(self) -> int:
        """Number of dimensions of the representation."""
        return self.action_dim + sum(turn.width - len(turn.dims) for turn in self.turns)

    @property
    def needs_state(self) -> bool:
        """Whether the state at the start of a chunk is needed, to apply and to invert."""
        return self.state_dim > 0

    @property
    def has_own_first_step(self) -> bool:
        """Whether the first step of a chunk is of another size than the others (`delta`)."""
        return any(isinstance(step, Delta) for step in self.steps) or any(
            turn.reference == "delta" for turn in self.turns
        )

    @property
    def depends_on_start(self) -> bool:
        """Whether the same raw action is represented otherwise in a chunk that starts elsewhere."""
        return self.needs_state or self.has_own_first_step

    def names(self, action_names: Sequence[str]) -> tuple[str, ...]:
        """Names of the dimensions of the representation, of those of the action."""
        found: list[str] = []
        for place, turn in self._places():
            if turn is None:
                found.append(action_names[place])
            else:
                found += [f"{action_names[place]}.{turn.target}.{i}" for i in range(turn.width)]
        return tuple(found)

    def is_binary(self) -> NDArray[np.bool_]:
        """(E,): which dimensions of the representation have two values."""
        binary = {dim for step in self.steps if isinstance(step, Binary) for dim in step.dims}
        found: list[bool] = []
        for place, turn in self._places():
            found += [place in binary] if turn is None else [False] * turn.width
        return np.array(found)

    def fitted(self, statistics: Statistics) -> ActionTransform:
        """The same with what is yet to be known about the data.

        Args:
            statistics: Statistics of the raw actions.
        """
        steps: list[ActionStep] = []
        for step in self.steps:
            if isinstance(step, Binary) and step.values is None:
                # a dimension that is constant needs no choice
                dims = (d for d in step.dims if not statistics.is_constant[d])
                steps += [Binary((d,), _two_values(statistics, d)) for d in dims]
            else:
                steps.append(step)
        turns = tuple(
            turn if turn.center else replace(turn, center=_center(turn, statistics))
            for turn in self.turns
        )
        return replace(self, steps=tuple(steps), turns=turns)

    def apply(self, actions: Any, state: Any = None) -> Any:
        """Raw chunks (B, T, A) as they are represented, (B, T, E); numpy or torch.

        Args:
            actions: Chunks in raw units.
            state: State at the start of each chunk in raw units, (B, S) or (S,) for all, where
                `needs_state`.
        """
        return self._convert(actions, state, self.action_dim, self._apply)

    def invert(self, represented: Any, state: Any = None) -> Any:
        """Raw chunks (B, T, A) of represented ones, (B, T, E): the inverse of `apply`."""
        return self._convert(represented, state, self.dim, self._invert)

    def _apply(self, actions_BTA: Array, state_BS: Array) -> Array:
        for step in self.steps:
            step.apply(actions_BTA, state_BS)
        parts = [
            actions_BTA[..., place : place + 1]
            if turn is None
            else turn.apply(actions_BTA[..., turn.dims], state_BS)
            for place, turn in self._places()
        ]
        return np.concatenate(parts, axis=-1)

    def _invert(self, represented_BTE: Array, state_BS: Array) -> Array:
        actions_BTA = np.empty((*represented_BTE.shape[:2], self.action_dim))
        start = 0
        for place, turn in self._places():
            if turn is None:
                actions_BTA[..., place] = represented_BTE[..., start]
                start += 1
            else:
                numbers_BTF = represented_BTE[..., start : start + turn.width]
                actions_BTA[..., turn.dims] = turn.invert(numbers_BTF, state_BS)
                start += turn.width
        for step in reversed(self.steps):
            step.invert(actions_BTA, state_BS)
        return actions_BTA

    def _places(self) -> list[tuple[int, Turn | None]]:
        """The dimensions that stay one number, and each rotation where its first dimension was."""
        turn_of = {min(turn.dims): turn for turn in self.turns}
        turned = {dim for turn in self.turns for dim in turn.dims}
        return [
            (dim, turn_of.get(dim))
            for dim in range(self.action_dim)
            if dim in turn_of or dim not in turned
        ]

    def _convert(
        self, values: Any, state: Any, dim: int, change: Callable[[Array, Array], Array]
    ) -> Any:
        """Change a copy as float64; the result is of the kind, type and device that was given."""
        if values.ndim != 3 or values.shape[-1] != dim:
            raise ValueError(
                f"chunks are {tuple(values.shape)}, expected (batch, steps, {dim}) for the actions "
                f"{self}"
            )
        changed_BTE = change(_float64(values), self._state(state, len(values)))
        if isinstance(values, np.ndarray):
            return changed_BTE.astype(values.dtype)
        return values.new_tensor(changed_BTE)

    def _state(self, state: Any, batch_size: int) -> Array:
        if not self.needs_state:
            return np.zeros((batch_size, 0))
        if state is None:
            raise ValueError(
                f"the actions {self} are relative to the state at the start of their chunk, and "
                f"there is none: give state=, (batch, {self.state_dim}) in raw units"
            )
        state_BS = np.atleast_2d(_float64(state))
        if state_BS.shape not in ((batch_size, self.state_dim), (1, self.state_dim)):
            raise ValueError(
                f"the state is {tuple(state_BS.shape)}, expected ({batch_size}, {self.state_dim}): "
                f"the one at the start of each chunk, for the actions {self}"
            )
        return np.broadcast_to(state_BS, (batch_size, self.state_dim))

    def __str__(self) -> str:
        """The words that make it."""
        return print_actions(self.steps, self.turns)

    def to_json(self) -> dict[str, Any]:
        return {
            "actions": str(self),
            "action_dim": self.action_dim,
            "state_dim": self.state_dim,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ActionTransform:
        names = [str(dim) for dim in range(values["action_dim"])]
        return cls.parse(values["actions"], names, [str(dim) for dim in range(values["state_dim"])])


def _needs_state(steps: Sequence[ActionStep], turns: Sequence[Turn]) -> bool:
    return any(isinstance(step, Relative) for step in steps) or any(
        turn.reference == "relative" for turn in turns
    )


def _center(turn: Turn, statistics: Statistics) -> tuple[float, ...]:
    """The mean of a rotation's numbers, which says on which side of its other numbers they lie."""
    mean = statistics.mean[list(turn.dims)].round(3)
    if turn.source == "quaternion" and not mean.any():
        return (0.0, 0.0, 0.0, 1.0)
    return tuple(mean.tolist())


def _two_values(statistics: Statistics, dim: int) -> tuple[float, float]:
    """The smallest and largest value of a dimension, as the shortest decimals of its float32."""
    low, high = (float(str(np.float32(all_A[dim]))) for all_A in (statistics.min, statistics.max))
    return low, high


def _float64(values: Any) -> NDArray[np.float64]:
    """A copy of an array or tensor."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.array(values, np.float64)
