"""The plan of an episode under way: chunks that were asked for, and the actions they come to.

    step             0       4       8
    chunk at 0       a a a a a a a a          acts from 0 on: the first chunk is waited for
    chunk at 4               ╌ ╌ b b b b b b  with a delay of 2, acts from 6 on
    executed         a a a a a a b b          with blend, the mean of a and b at 6 and 7

Shape letters: D draw, T step in the chunk, N step of the plan, A action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oatkit.types import Execution

Actions = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PlannedChunk:
    """A chunk of the plan.

    Attributes:
        asked_at: Step at which it was asked for, which its first action is for.
        acts_from: First step at which it is executed.
        actions: (T, A).
    """

    asked_at: int
    acts_from: int
    actions: Actions

    def acts_at(self, step: int) -> bool:
        """Whether it is executed at a step, alone or as part of a mean."""
        return self.acts_from <= step < self.asked_at + len(self.actions)

    def at(self, step: int) -> Actions:
        """The action of the chunk for a step, (A,)."""
        action_A: Actions = self.actions[step - self.asked_at]
        return action_A


class ActionPlan:
    """Chunks of an episode, and what they come to at each step.

    Args:
        execution: How chunks become actions.
        scale_A: Raw units in a normalized one, (A,), in which chunks are compared.

    Attributes:
        execution: How chunks become actions.
        step: Step that the next action is for.
    """

    def __init__(self, execution: Execution, scale_A: NDArray[np.float64] | float = 1.0) -> None:
        self.execution = execution
        self._scale_A = scale_A
        self._chunks: list[PlannedChunk] = []
        self.step = 0

    def add(self, draws_DTA: Actions, execute_steps: int | None = None) -> int:
        """Take in the draws of a chunk for the next steps; returns how many to execute of them.

        Args:
            draws_DTA: Chunks of the same observation, of which one is taken.
            execute_steps: Number of steps that the policy finds worth executing, for "auto".
        """
        horizon, delay = draws_DTA.shape[1], self.execution.delay
        steps = self.execution.within(horizon).steps
        if not isinstance(steps, int):
            if execute_steps is None:
                raise ValueError(not_calibrated())
            steps = min(max(1, int(execute_steps)), horizon - delay)
        chosen = 0 if len(draws_DTA) == 1 else self._choose(draws_DTA)
        acts_from = self.step + (delay if self._chunks else 0)
        self._chunks = [c for c in self._chunks if c.asked_at + len(c.actions) > self.step]
        self._chunks.append(PlannedChunk(self.step, acts_from, draws_DTA[chosen]))
        return steps

    def planned(self, num_steps: int) -> Actions:
        """Actions of the next steps as the chunks so far have them, (N, A); fewer than asked for
        where the chunks end. The first `delay` of them are committed: no new chunk changes them."""
        actions = []
        for step in range(self.step, self.step + num_steps):
            acting = [chunk for chunk in self._chunks if chunk.acts_at(step)]
            if not acting:
                break
            actions.append(self._action(acting, step))
        return np.stack(actions) if actions else np.zeros((0, 0), np.float32)

    def committed(self) -> Actions:
        """Actions that are executed before a chunk that is asked for now can act, (N, A)."""
        return self.planned(self.execution.delay)

    def take(self, num_steps: int) -> tuple[Actions, list[bool]]:
        """The next actions, (N, A), which are then past, and at which of them a chunk begins."""
        actions_NA = self.planned(num_steps)
        assert len(actions_NA) == num_steps, "a chunk lasts until the next one acts"
        begins = {chunk.acts_from for chunk in self._chunks}
        is_seam_N = [step in begins for step in range(self.step, self.step + num_steps)]
        self.step += num_steps
        return actions_NA, is_seam_N

    def _action(self, acting: list[PlannedChunk], step: int) -> Actions:
        """The action of a step by the chunks that act there, the latest last."""
        blend = self.execution.blend
        if blend is None or len(acting) == 1:
            return acting[-1].at(step)
        latest = acting[-1].asked_at
        weights = [math.exp(-blend * (latest - chunk.asked_at)) for chunk in acting]
        actions = [chunk.at(step) for chunk in acting]
        return np.average(actions, axis=0, weights=weights).astype(np.float32)

    def _choose(self, draws_DTA: Actions) -> int:
        """The draw nearest to the plan under way; without one, the draw nearest to the others."""
        normal_DTA = draws_DTA / self._scale_A
        planned_NA = self.planned(draws_DTA.shape[1])
        if len(planned_NA):
            away_DNA = normal_DTA[:, : len(planned_NA)] - planned_NA / self._scale_A
            return int(np.square(away_DNA).mean(axis=(1, 2)).argmin())
        away_DDTA = normal_DTA[:, None] - normal_DTA[None]
        return int(np.sqrt(np.square(away_DDTA).mean(axis=(2, 3))).sum(axis=1).argmin())


def cannot_commit(name: str) -> str:
    """Why a policy cannot be told committed actions, and what to do.

    Args:
        name: Name of the policy.
    """
    return (
        f"{name} takes no committed actions, which are for tokens whose prefixes decode, such as "
        "those of oat: leave commit out"
    )


def not_calibrated() -> str:
    """What to do where a policy does not say how many steps are worth executing."""
    return (
        "execute 'auto' needs a policy that knows how many steps are worth executing: "
        "`oatkit policy calibrate POLICY --data DATA` finds it, as the end of `oatkit policy "
        "train` does"
    )
