"""The protocol of an episode, and which episodes are to be run.

Every query of the policy has random numbers of its own, which depend on the seed, the task, the
episode and the query alone: not on the budget, so that the tokens of a smaller budget are a prefix
of those of a larger one, and not on which episodes are run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import evaluation_seed
from oatkit.types import Budget, Execution, Sampling, Schedule


@dataclass(frozen=True)
class Rollout:
    """The protocol of an episode.

    Attributes:
        execution: How chunks become actions.
        sampling: Rules by which ids are chosen. Its seed (0 where it has none) decides the goals
            and the random numbers, which are the same for every policy and budget.
        state_keys: Parts of the simulator's observation that are joined to the policy's state.
        endpoints: Endpoints of the schedule to generate by; None for the policy's own schedule.
        scale: Raw units in a normalized one of each action dimension; empty where all are 1.
    """

    execution: Execution
    sampling: Sampling = Sampling(seed=0)
    state_keys: tuple[str, ...] = ()
    endpoints: tuple[int, ...] | None = None
    scale: tuple[float, ...] = ()

    @property
    def action_scale(self) -> NDArray[np.float64] | float:
        """Raw units in a normalized one, (A,)."""
        return np.asarray(self.scale) if self.scale else 1.0

    @property
    def schedule(self) -> Schedule | None:
        """The schedule to generate by; None for the policy's own."""
        return None if self.endpoints is None else Schedule(self.endpoints)

    def goal_seed(self, plan: EpisodePlan) -> int:
        """The seed that the simulator is reset with."""
        return evaluation_seed(self.sampling.seed or 0, plan.episode)

    def query_seed(self, plan: EpisodePlan, query: int) -> int:
        """The seed of the random numbers of one query of an episode."""
        return joint_seed(self.sampling.seed or 0, crc32(plan.task.encode()), plan.episode, query)


@dataclass(frozen=True)
class EpisodePlan:
    """An episode to run.

    Attributes:
        task: Name of the task in the simulator.
        budget: Number of tokens to generate, "auto", or None for all.
        episode: Number of the episode, from 0.
        video_path: File to write a video of the episode to; None for no video.
    """

    task: str
    budget: Budget
    episode: int
    video_path: Path | None = None


def joint_seed(*entropy: int) -> int:
    """A seed of 63 bits that depends on all of these numbers and nothing else."""
    state = np.random.SeedSequence(entropy).generate_state(2, np.uint32)
    return int(state[0]) << 31 | int(state[1]) >> 1
