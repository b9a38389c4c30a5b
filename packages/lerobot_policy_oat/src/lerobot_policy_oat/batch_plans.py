"""How the chunks of a batch of environments become actions, one step at a time.

Shape letters: B environment, R environment whose chunk is due, D draw, T step in the chunk, A
action dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from oatkit.evaluation.action_plan import ActionPlan
from oatkit.types import Execution
from torch import Tensor


class BatchPlans:
    """The plan of every environment of a batch.

    Args:
        execution: How chunks become actions.
        scale_A: Units of the actions in a normalized one, (A,), in which draws are compared.
        num_environments: Number of environments.
    """

    def __init__(
        self,
        execution: Execution,
        scale_A: NDArray[np.float64] | float,
        num_environments: int,
    ) -> None:
        self._plans = [ActionPlan(execution, scale_A) for _ in range(num_environments)]
        self._num_left = [0] * num_environments

    @property
    def due(self) -> list[int]:
        """Numbers of the environments whose next chunk is due."""
        return [row for row, num_left in enumerate(self._num_left) if not num_left]

    def add(self, draws_RDTA: Tensor, worth: Sequence[int | None] | None = None) -> None:
        """Take in chunks of the environments that are due.

        Args:
            draws_RDTA: Chunks of each, of which one is taken.
            worth: Number of steps that the policy finds worth executing, for "auto".
        """
        steps = [None] * len(draws_RDTA) if worth is None else worth
        rows = zip(self.due, draws_RDTA.cpu().numpy(), steps, strict=True)
        for row, draws_DTA, num_steps in rows:
            self._num_left[row] = self._plans[row].add(draws_DTA, num_steps)

    def take(self) -> Tensor:
        """The next action of every environment, (B, A)."""
        self._num_left = [num_left - 1 for num_left in self._num_left]
        return torch.from_numpy(np.concatenate([plan.take(1)[0] for plan in self._plans]))


def committed_by_lerobot(given: Mapping[str, Any]) -> Tensor | None:
    """Actions that are executed before a new chunk acts, (steps, A) or (B, steps, A); None where
    nothing is.

    Args:
        given: What LeRobot's real-time chunking gives: `prev_chunk_left_over`, what is left of the
            chunk under way, and `inference_delay`, how many steps of it are executed meanwhile.
    """
    left, delay = given.get("prev_chunk_left_over"), given.get("inference_delay")
    return left[..., :delay, :] if left is not None and delay else None


def warning_of_jumps(kind: str) -> str:
    """What to expect of real-time chunking with tokens of a kind whose prefixes do not decode."""
    return (
        f"chunks of {kind} do not go on from the one under way, since its tokens have no prefixes: "
        "expect jumps, or take a tokenizer such as oat"
    )
