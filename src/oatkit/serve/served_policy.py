"""What the server needs of a policy, of whatever kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from oatkit.policies import Prediction
from oatkit.policies.generation.prediction import can_stop
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Budget, Sampling, Schedule


class ServedPolicy(Protocol):
    """Acts on batches that bring their history; `LightPolicy` is one."""

    spec: ObservationSpec
    tokenizer: ActionTokenizer
    extras: dict[str, Any]

    @property
    def schedule(self) -> Schedule:
        """Blocks in which it generates."""

    def read(self, observation: Mapping[str, Any]) -> Observations:
        """The tensors of an observation; raises a ValueError where it is not what is observed."""

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Budget = None,
        sampling: Sampling = Sampling(),
        generator: Any = None,
        deadline_ms: float | None = None,
    ) -> Prediction:
        """Chunks for a batch with its history."""


def served_budgets(policy: ServedPolicy) -> tuple[int, ...]:
    """Budgets that a deadline may choose from; none where generation cannot stop early."""
    return policy.tokenizer.budgets if speaks_tokens(policy) and can_stop(policy.tokenizer) else ()


def speaks_tokens(policy: ServedPolicy) -> bool:
    """Whether chunks come from tokens; not those of a flow expert."""
    return acting_head(policy) == "tokens"


def acting_head(policy: ServedPolicy) -> str:
    """`tokens` or `flow`."""
    return str(getattr(policy, "head", "tokens"))
