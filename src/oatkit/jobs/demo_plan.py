"""How the minutes of a demo are spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

MIN_MINUTES = 4.0
POLICY_KIND = "oat-pow2"
"""Kind of the tokenizer that the policy acts by."""
LEVELS = (8, 5, 5, 5)
"""FSQ levels of the tokenizers."""


@dataclass(frozen=True)
class DemoPlan:
    """How the minutes are spent.

    Attributes:
        demonstrations: Number of demonstrations of each task.
        tokenizer_minutes: Training time of each learned kind of tokenizer.
        policy_until: Minutes since the start by which the policy is trained.
        policy_minutes: Least training time of the policy, however long the rest took.
        episodes: Number of episodes of each task and budget.
        tasks: What is demonstrated, and what the policy does.
        kinds: Kinds of tokenizers to compare.
        videos: Number of these episodes to film.
        budgets: Budgets that the policy acts with.
        preset: Sizes of tokenizers and policy.
        horizon: Number of actions in a chunk.
    """

    demonstrations: int
    tokenizer_minutes: float
    policy_until: float
    policy_minutes: float
    episodes: int
    tasks: tuple[str, ...] = ("drawer-open", "door-open", "coffee-pull")
    kinds: tuple[str, ...] = ("oat", "oat-pow2", "quest", "bin", "fast", "klt")
    videos: int = 1
    budgets: tuple[int | Literal["auto"], ...] = (1, 2, 4, 8, "auto")
    preset: Literal["tiny", "small"] = "small"
    horizon: int = 32

    @property
    def num_tokens(self) -> int:
        """Number of tokens of a chunk: the largest budget."""
        return max(budget for budget in self.budgets if isinstance(budget, int))


def plan_for(minutes: float) -> DemoPlan:
    """The plan for a demo of so many minutes."""
    if not MIN_MINUTES <= minutes < math.inf:
        raise ValueError(f"minutes is {minutes:g}, expected {MIN_MINUTES:g} or more")
    return DemoPlan(
        demonstrations=min(200, round(5 * minutes)),
        tokenizer_minutes=round(0.12 * minutes, 3),
        policy_until=0.8 * minutes,
        policy_minutes=0.15 * minutes,
        episodes=min(50, round(2 * minutes)),
    )
