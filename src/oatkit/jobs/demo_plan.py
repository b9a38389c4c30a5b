"""How the minutes of a demo are spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

MIN_MINUTES = 6.0
MIN_TOKENIZER_STEPS = 600
MIN_POLICY_STEPS = 1500
"""Number of steps below which the success of a policy says little about its tokens."""
POLICY_KIND = "oat-pow2"
"""Kind of the tokenizer that the policy acts by."""
LEVELS = (8, 5, 5, 5)
"""FSQ levels of the tokenizers."""
DEMO_TASKS = {
    "metaworld": ("drawer-open", "door-open", "coffee-pull"),
    "robosuite": ("lift", "can", "door"),
}
"""Simulator to the tasks of its demo."""


@dataclass(frozen=True)
class DemoPlan:
    """How the minutes are spent.

    Attributes:
        demonstrations: Number of demonstrations of each task.
        tokenizer_steps: Number of training steps of a learned kind of tokenizer.
        policy_steps: Number of training steps of the policy.
        episodes: Number of episodes of each task and budget.
        tasks: What is demonstrated, and what the policy does.
        kinds: Kinds of tokenizers to compare.
        videos: Number of these episodes to film.
        budgets: Budgets that the policy acts with.
        execute: Number of steps of a chunk that it executes before it looks again; of the fixed
            numbers in `benchmarks/results/control.json` it is the one with which ours solve most.
        preset: Sizes of tokenizers and policy.
        horizon: Number of actions in a chunk.
        simulator: Where the tasks are done.
    """

    demonstrations: int
    tokenizer_steps: int
    policy_steps: int
    episodes: int
    tasks: tuple[str, ...] = DEMO_TASKS["metaworld"]
    kinds: tuple[str, ...] = ("oat-pow2", "bin", "fast", "klt")
    videos: int = 1
    budgets: tuple[int | Literal["auto"], ...] = (1, 2, 4, 8, "auto")
    execute: int = 4
    preset: Literal["tiny", "small"] = "small"
    horizon: int = 32
    simulator: str = "metaworld"

    @property
    def num_tokens(self) -> int:
        """Number of tokens of a chunk: the largest budget."""
        return max(budget for budget in self.budgets if isinstance(budget, int))


def plan_for(minutes: float, simulator: str = "metaworld") -> DemoPlan:
    """The plan for a demo of so many minutes of two idle cores.

    Trainings are counted in steps, so that a busy machine takes longer and learns as much.
    """
    if not MIN_MINUTES <= minutes < math.inf:
        raise ValueError(f"minutes is {minutes:g}, expected {MIN_MINUTES:g} or more")
    return DemoPlan(
        demonstrations=min(200, round(5 * minutes)),
        tokenizer_steps=max(MIN_TOKENIZER_STEPS, round(100 * minutes)),
        policy_steps=max(MIN_POLICY_STEPS, round(200 * minutes)),
        episodes=min(50, round(2 * minutes)),
        tasks=DEMO_TASKS[simulator],
        simulator=simulator,
    )
