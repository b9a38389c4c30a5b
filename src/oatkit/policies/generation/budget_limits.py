"""How many tokens a policy may generate, or how many Euler steps a flow expert may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Budget, Schedule

if TYPE_CHECKING:
    from oatkit.policies.policy import Policy


MAX_STEPS = 100
"""Most Euler steps that a caller may ask for: a server must not be kept busy by one request."""
EULER_STEPS = (1, 2, 5)
"""Numbers of Euler steps that a flow expert is measured with and that a deadline chooses from,
beside the largest."""


def resolve_budget(tokenizer: ActionTokenizer, schedule: Schedule, budget: Budget) -> int:
    """Largest number of tokens to decode; an error names what is possible."""
    codec = tokenizer.codec
    most, num_tokens = schedule.endpoints[-1], codec.max_tokens
    if most > num_tokens:
        raise ValueError(f"the schedule ends at {most} tokens, {tokenizer.kind} has {num_tokens}")
    wanted: Any = most if budget is None or budget == "auto" else budget
    if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool):
        raise ValueError(f"budget is {budget!r}, expected a number of tokens or 'auto'")
    if not 1 <= wanted <= most:
        ends = f", where the schedule ends at {most}" if most < num_tokens else ""
        raise ValueError(f"budget {wanted} is outside 1 .. {most}{ends}")
    has_prefixes = can_stop_early(tokenizer) if budget == "auto" else codec.has_prefixes
    if (wanted < num_tokens or budget == "auto") and not has_prefixes:
        raise ValueError(
            f"{tokenizer.kind} decodes only all of its tokens: budget {budget or wanted} is none "
            f"of {list(tokenizer.budgets)}"
        )
    return int(wanted)


def policy_budget(policy: Policy, budget: Budget, schedule: Schedule | None = None) -> int:
    """Largest number of tokens, or number of Euler steps where a flow expert acts.

    Args:
        policy: Policy that acts by its `head`.
        budget: What is asked for.
        schedule: Blocks in which tokens are generated; the policy's by default.
    """
    if policy.head == "flow":
        return resolve_steps(budget, policy.budgets[-1])
    return resolve_budget(policy.tokenizer, schedule or policy.schedule, budget)


def resolve_steps(budget: Budget, default: int) -> int:
    """Number of Euler steps of a flow expert; `default` where none is named."""
    wanted: Any = default if budget is None else budget
    is_number = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool)
    most = max(default, MAX_STEPS)
    if not is_number or not 1 <= wanted <= most:
        raise ValueError(
            f"budget is {budget!r}, expected a number of Euler steps from 1 to {most}: a flow "
            "expert acts"
        )
    return int(wanted)


def step_choices(most: int) -> tuple[int, ...]:
    """Numbers of Euler steps to choose from, `most` and fewer, in growing order."""
    return (*(steps for steps in EULER_STEPS if steps < most), most)


def can_stop_early(tokenizer: ActionTokenizer) -> bool:
    """Whether any number of tokens is a chunk, so that generation may stop after any stage."""
    return tokenizer.codec.has_prefixes and tokenizer.is_fixed_length
