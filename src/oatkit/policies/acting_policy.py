"""A policy as whoever lets it act sees it, be it one of oatkit's or something in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types import Budget, Prediction, Sampling, Schedule


class ActingPolicy(Protocol):
    """A policy as simulators and robots see it: it reads observations and predicts chunks."""

    @property
    def spec(self) -> ObservationSpec:
        """What the policy observes."""

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; see `Policy.read`."""

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        sampling: Sampling = Sampling(),
        generator: Generators = None,
        deadline_ms: float | None = None,
        draws: int = 1,
        committed: Any = None,
    ) -> Prediction:
        """Chunks that follow the observations; see `Policy.predict_action_chunk`."""
