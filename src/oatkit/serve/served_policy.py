"""What the server needs of a policy, of whatever kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from oatkit.policies import Prediction
from oatkit.policies.generation.prediction import can_stop
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Sampling, Schedule


class ServedPolicy(Protocol):
    """Acts on batches that bring their history; `LightPolicy` is one."""

    spec: ObservationSpec
    tokenizer: ActionTokenizer
    extras: dict[str, Any]

    @property
    def schedule(self) -> Schedule:
        """In which blocks it generates."""

    def read(self, observation: Mapping[str, Any]) -> Any:
        """Raises a ValueError where the observation is not what the policy reads."""

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Any,
        sampling: Sampling,
        generator: Any,
        deadline_ms: float | None,
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
