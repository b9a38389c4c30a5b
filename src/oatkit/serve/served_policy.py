"""What the server needs of a policy, of whatever kind."""

from __future__ import annotations

from typing import Any, Protocol

from oatkit.policies import ActingPolicy
from oatkit.policies.generation.budget_limits import can_stop_early
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Schedule


class ServedPolicy(ActingPolicy, Protocol):
    """A policy that acts, with what its server tells clients."""

    extras: dict[str, Any]

    @property
    def tokenizer(self) -> ActionTokenizer:
        """The frozen tokenizer."""

    @property
    def schedule(self) -> Schedule:
        """Blocks in which the policy generates."""


def served_budgets(policy: ServedPolicy) -> tuple[int, ...]:
    """Budgets that a deadline may choose from; none where generation cannot stop early."""
    return (
        policy.tokenizer.budgets
        if speaks_tokens(policy) and can_stop_early(policy.tokenizer)
        else ()
    )


def speaks_tokens(policy: ServedPolicy) -> bool:
    """Whether chunks come from tokens; not those of a flow expert."""
    return acting_head(policy) == "tokens"


def acting_head(policy: ServedPolicy) -> str:
    """`tokens` or `flow`."""
    return str(getattr(policy, "head", "tokens"))
