"""A policy as episodes see it, wherever it runs: nothing here needs a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import ImageSize
from oatkit.types import Budget, Prediction, Sampling, Schedule

SCHEMES = ("ws://", "wss://")
"""How the address of a policy server begins."""
OPENPI_SIZE = (224, 224)
"""Height and width of images for a server that does not tell them, as openpi's policies have."""


class Observed(Protocol):
    """What a policy observes, as far as episodes must know it."""

    @property
    def history(self) -> int:
        """Number of frames, the current one included."""

    @property
    def state_dim(self) -> int | None:
        """Number of values in a state; 0 where the policy reads none, None where it is unknown."""

    @property
    def cameras(self) -> Mapping[str, ImageSize]:
        """Height and width of each camera, by its name."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The known instructions; empty where the policy takes any."""


class QueriedPolicy(Protocol):
    """What predicts chunks: every policy of oatkit, or one behind a server."""

    @property
    def spec(self) -> Observed:
        """What the policy observes."""

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Budget,
        schedule: Schedule | None,
        sampling: Sampling,
        generator: Sequence[int],
        draws: int,
        committed: NDArray[np.float32] | None,
    ) -> Prediction:
        """Chunks that follow a batch of observations with their history.

        Args:
            observation: LeRobot's keys, (B, frames, ...).
            budget: Largest number of tokens, "auto", or None for all.
            schedule: Another schedule than the policy was trained under.
            sampling: Rules by which ids are chosen.
            generator: Seeds of the rows.
            draws: Number of chunks for each observation.
            committed: Actions that are executed before the chunks act, (B, steps, action_dim) in
                raw units; None where nothing is committed.
        """


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A policy that is to be evaluated, and what an evaluation has to know of it.

    Attributes:
        acting: What predicts chunks.
        name: Name of the policy in the record: its folder, address or kind.
        kind: Kind of its tokenizer.
        budgets: Budgets to evaluate; those of all tokens are numbers where the number is known.
        horizon: Number of steps in a chunk; None where it is unknown.
        action_dim: Number of action dimensions; None where it is unknown.
        digest: Hash of weights, network config and tokenizer; None where it is unknown.
        scale: Raw units in a normalized one of each action dimension; empty where it is unknown.
        state_keys: Parts of an observation that were its state in training.
        fps: Steps a second of the training data; None where they are unknown.
        head: What acts where the policy has a flow expert, or is not known to have tokens.
        has_execute_steps: Whether predictions say how many of their steps are worth executing.
        takes_committed: Whether it can be told the actions that are executed before its chunk acts.
        device: Where it runs, in words; empty where that is unknown.
        action_names: Names of the action dimensions; empty where they are unknown.
        prefix_chunks: Gives the chunk of each number of leading ids that were generated for a raw
            state; None where the tokenizer is not here.
    """

    acting: QueriedPolicy
    name: str
    kind: str
    budgets: tuple[Budget, ...]
    horizon: int | None
    action_dim: int | None
    digest: str | None
    scale: tuple[float, ...] = ()
    state_keys: tuple[str, ...] = ()
    fps: float | None = None
    head: str | None = None
    has_execute_steps: bool = False
    takes_committed: bool = False
    device: str = ""
    action_names: tuple[str, ...] = ()
    prefix_chunks: Callable[[Sequence[int], Any], Mapping[int, NDArray[np.float32]]] | None = None


@runtime_checkable
class Evaluable(Protocol):
    """What says by itself all that an evaluation has to know, as `RemotePolicy` does."""

    def evaluated(self, budgets: Sequence[Budget]) -> EvaluatedPolicy:
        """The policy, to be evaluated at some budgets."""
