"""How much of a chunk is executed, and how chunks follow one another."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

ExecuteSteps = int | Literal["auto"] | None
"""Number of steps between two queries; "auto" where every prediction says how many are worth
executing; None for half a chunk, as in the paper."""


@dataclass(frozen=True)
class Execution:
    """How chunks become actions; the defaults are the paper's protocol.

        step          0   .   .   s   .   .   2s
        chunk at 0    ├───────────────┤╌╌╌╌╌╌╌      acts until the next chunk does
        chunk at s                ╎   ├───────────  asked for at s, acts from s + delay on
                                  └ s     └ s + delay

    Attributes:
        steps: Number of steps between two queries, "auto", or None for half a chunk.
        blend: Decay of the weights of older chunks, of temporal ensembling: an action is the mean
            of what all chunks so far planned for its moment, with weights exp(-blend * age), where
            age is the number of steps since a chunk was asked for. None to follow the latest chunk.
        delay: Number of steps from a query to the first action of its chunk. Meanwhile the older
            chunk goes on; the first chunk of an episode is waited for.
        draws: Number of chunks that are generated for an observation. The one nearest to the plan
            under way is taken; where there is none, the one nearest to the others.
        commit: Whether a query tells the policy the actions that are executed before its chunk
            acts, `delay` of them, so that the chunk begins with them; without a delay that is a
            ValueError.
    """

    steps: ExecuteSteps = None
    blend: float | None = None
    delay: int = 0
    draws: int = 1
    commit: bool = False

    def __post_init__(self) -> None:
        """Take numbers of numpy as Python's; what a field cannot hold is a ValueError."""
        if self.steps is not None and not (isinstance(self.steps, str) and self.steps == "auto"):
            self._set("steps", whole_number("execute", self.steps, 1, ", 'auto' or None"))
        if self.blend is not None:
            self._set("blend", _decay(self.blend))
        self._set("delay", whole_number("delay", self.delay, 0))
        self._set("draws", whole_number("draws", self.draws, 1))
        if not isinstance(self.commit, bool | np.bool_):
            raise ValueError(f"commit is {self.commit!r}, expected True or False")
        self._set("commit", bool(self.commit))
        if self.commit and not self.delay:
            raise ValueError(
                "commit is for chunks that act late, and delay is 0: give a delay of 1 or more, or "
                "leave commit out"
            )

    @property
    def shortest_chunk(self) -> int:
        """Number of steps that every chunk must have; where half a chunk is executed, one."""
        return self.delay + (self.steps if isinstance(self.steps, int) else 1)

    def within(self, horizon: int) -> Execution:
        """The same for chunks of so many steps, half a chunk as a number.

        A chunk has to last until the next one acts; where it does not, that is a ValueError.
        """
        if isinstance(self.steps, int) and self.steps > horizon:
            raise ValueError(f"execute is {self.steps}, expected 1 to {horizon}, a whole chunk")
        steps = max(1, horizon // 2) if self.steps is None else self.steps
        found = replace(self, steps=steps)
        if found.shortest_chunk > horizon:
            shortest = found.shortest_chunk - self.delay
            raise ValueError(
                f"delay is {self.delay}, expected at most {horizon - shortest}: a chunk has "
                f"{horizon} steps, of which {shortest} or more are executed"
            )
        return found

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def whole_number(name: str, value: Any, least: int, others: str = "") -> int:
    """The number that an option holds, one of numpy too; anything else is a ValueError.

    Args:
        name: What the option is called.
        value: What was given for it.
        least: The smallest value.
        others: What else it may be, for the message.
    """
    value = _plain(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number from {least} on{others}")
    return value


def _decay(value: Any) -> float:
    value = _plain(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise ValueError(f"blend is {value!r}, expected a finite number from 0 on, or None")
    return float(value)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value
