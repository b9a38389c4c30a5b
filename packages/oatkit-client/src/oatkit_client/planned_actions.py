"""What the chunks so far planned for the steps to come.

step             0 1 2 3 4 5 6 7 8
asked for at 0   a a a a a a
asked for at 3         b b b b b b
blend None       a a a b b b b b b     the newest chunk that has come
blend            a a a m m m b b b     m: mean of a and b, whose weights fall with their age

A chunk that comes late lies where it was asked for: its first actions are past, and its age counts
the steps that passed until it came. Where no chunk comes the robot may hold its position, which
takes no step of the plan, since the robot stays where it was; or its velocity, which takes one.

Shape letters: C chunk under way, D draw, T step in the chunk, N step to come, A action dimension.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Literal, Mapping, Union

import numpy as np

AUTO = "auto"
"""The policy says in every reply how many steps are worth executing."""
Execute = Union[int, Literal["auto"], None]
"""Number of steps of a chunk that are executed, or "auto"; None for half of the chunk."""
LARGEST = sys.float_info.max
BLEND = 0.1
"""Default of `blend`, with which a chunk of half a horizon's age counts a fifth at 32 steps."""


class PlannedActions:
    """The plan under way, one action at a time.

    Args:
        execute: Number of steps after which the next chunk is due.
        blend: How fast weights fall with age, exp(-blend * age), where an action is the mean of
            what all chunks planned for its step; None takes the newest chunk's.

    Attributes:
        step: Number of actions that were taken in this episode.
    """

    def __init__(self, execute: Execute = None, blend: float | None = None) -> None:
        steps, decay = _plain(execute), _plain(blend)
        is_named = steps is None or (isinstance(steps, str) and steps == AUTO)
        if not is_named and not (_is_number(steps, int) and steps >= 1):
            raise ValueError(
                f"execute is {steps!r}, expected a whole number from 1 on, 'auto' or None"
            )
        if decay is not None and not (_is_number(decay, (int, float)) and 0 <= decay <= LARGEST):
            raise ValueError(f"blend is {decay!r}, expected a finite number from 0 on, or None")
        self._execute: Execute = steps
        self._blend: float | None = decay
        self.clear()

    def clear(self) -> None:
        """Forget all chunks: an episode begins."""
        self.step = 0
        self._due_at = 0
        self._chunks: list[tuple[int, Any]] = []  # when it was asked for, (T, A); newest last
        self._taken: list[Any] = []  # the last two actions

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next chunk."""
        return self.step >= self._due_at

    @property
    def has_begun(self) -> bool:
        """Whether an action was taken in this episode."""
        return bool(self._taken)

    @property
    def num_left(self) -> int:
        """Number of actions that are planned."""
        return max([0, *(begin + len(chunk_TA) - self.step for begin, chunk_TA in self._chunks)])

    def add(self, reply: Mapping[str, Any], asked_at: int, scale_A: Any = 1.0) -> None:
        """Take in a reply.

        Args:
            reply: Reply with the chunk as `actions`, (horizon, action_dim), or with several as
                `draws`, of which the one nearest to the plan under way is taken; where there is no
                plan, the one nearest to the others.
            asked_at: What `step` was when it was asked for.
            scale_A: Raw units in a normalized one, (action_dim,), in which draws are compared.
        """
        chunk_TA = np.asarray(reply["actions"])
        if "draws" in reply:
            chunk_TA = self._nearest(np.stack(reply["draws"]), asked_at, scale_A)
        if chunk_TA.ndim != 2 or not len(chunk_TA):
            raise ValueError(f"actions are {chunk_TA.shape}, expected (horizon, action_dim)")
        self._due_at = asked_at + self._num_executed(reply, len(chunk_TA))
        older = [] if self._blend is None else self._chunks
        self._chunks = [*older, (asked_at, chunk_TA)]

    def upcoming(self, num_steps: int) -> Any:
        """Actions of the next steps as the chunks so far have them, (N, action_dim); fewer than
        asked for where the chunks end, and None where there are none."""
        steps = range(self.step, self.step + min(num_steps, self.num_left))
        return np.stack([self._planned(step) for step in steps]) if steps else None

    def next(self) -> Any:
        """The next action, (action_dim,); there must be one left."""
        step, self.step = self.step, self.step + 1
        self._chunks = self._acting(step)
        return self._take(self._planned(step))

    def hold(self) -> Any:
        """The last action again; there must have been one. No step of the plan is taken."""
        return self._take(self._taken[-1])

    def go_on(self) -> Any:
        """The last action and the last difference once more; there must have been an action."""
        self.step += 1
        return self._take(self._taken[-1] + (self._taken[-1] - self._taken[0]))

    def _take(self, action_A: Any) -> Any:
        self._taken = [*self._taken[-1:], action_A]
        return action_A

    def _acting(self, step: int) -> list[tuple[int, Any]]:
        """The chunks that have not ended before a step."""
        return [(begin, plan) for begin, plan in self._chunks if step < begin + len(plan)]

    def _planned(self, step: int) -> Any:
        acting = self._acting(step)
        planned_CA = [chunk_TA[step - begin] for begin, chunk_TA in acting]
        if self._blend is None or len(planned_CA) == 1:
            return planned_CA[-1]
        # only ratios count: with weight 1 for the newest, the weights never all vanish
        newest, _ = acting[-1]
        weights = [math.exp(self._blend * (begin - newest)) for begin, _ in acting]
        return np.average(planned_CA, axis=0, weights=np.array(weights, np.float32))

    def _nearest(self, draws_DTA: Any, asked_at: int, scale_A: Any) -> Any:
        """The draw nearest to the plan under way; without one, the draw nearest to the others."""
        normal_DTA = draws_DTA / scale_A
        past = self.step - asked_at  # steps that were executed while it was under way
        planned_NA = self.upcoming(draws_DTA.shape[1] - past)
        if planned_NA is None:
            away_DDTA = normal_DTA[:, None] - normal_DTA[None]
            chosen = np.sqrt(np.square(away_DDTA).mean(axis=(2, 3))).sum(axis=1).argmin()
        else:
            away_DNA = normal_DTA[:, past : past + len(planned_NA)] - planned_NA / scale_A
            chosen = np.square(away_DNA).mean(axis=(1, 2)).argmin()
        return draws_DTA[chosen]

    def _num_executed(self, reply: Mapping[str, Any], horizon: int) -> int:
        steps: Any = self._execute
        name = "execute"
        if steps is None:
            return max(horizon // 2, 1)
        if steps == AUTO:
            steps, name = reply.get("execute_steps"), "execute_steps of the reply"
            if steps is None:
                raise ValueError(
                    "execute is 'auto', but the reply has no execute_steps: find them with `oatkit "
                    "policy calibrate` where the policy lies, or give a number of steps"
                )
        if not 1 <= steps <= horizon:
            raise ValueError(f"{name} is {steps}, expected 1 to {horizon}, the steps of a chunk")
        return int(steps)


def _is_number(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value
