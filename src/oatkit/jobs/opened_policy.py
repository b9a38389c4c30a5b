"""A policy that runs in this process, as an evaluation sees it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from oatkit.evaluation.queried_policy import EvaluatedPolicy
from oatkit.nn.device import Device, describe_device
from oatkit.policies import Policy
from oatkit.policies.generation.budget_limits import policy_budget
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.policies.generation.early_stop import require_thresholds
from oatkit.policies.policy_table import open_policy
from oatkit.tokenizers.prefix_chunks import prefix_chunks
from oatkit.types import Budget, Decoding, Dtype, Head, Schedule
from oatkit.types.observation_keys import STATE


def open_for_evaluation(
    policy: Policy | str | os.PathLike[str],
    budgets: Sequence[Budget],
    *,
    schedule: Schedule | None = None,
    head: Head | None = None,
    decoding: Decoding | None = None,
    device: Device = "auto",
    dtype: Dtype | None = None,
) -> EvaluatedPolicy:
    """A policy, or the folder or hub id of one, ready to be evaluated; see `evaluate`.

    A budget that the policy cannot have is an error.
    """
    opened = open_policy(policy, device, dtype).choose_decoder(head, decoding)
    data = opened.extras.get("data", {})
    return EvaluatedPolicy(
        acting=opened,
        name=opened.kind if opened is policy else str(policy),
        kind=opened.tokenizer.kind,
        budgets=tuple(_resolved(opened, budget, schedule) for budget in budgets),
        horizon=opened.tokenizer.horizon,
        action_dim=opened.tokenizer.action_dim,
        digest=opened.digest,
        scale=tuple(opened.tokenizer.raw_normalizer.scale.tolist()),
        state_keys=tuple(data.get("state_keys", (STATE,))),
        fps=data.get("fps"),
        head=opened.head if "flow" in opened.heads else None,
        has_execute_steps=opened.execution is not None,
        takes_committed=takes_committed(opened),
        device=describe_device(opened.device),
        action_names=tuple(opened.tokenizer.data.action_names),
        prefix_chunks=partial(prefix_chunks, opened.tokenizer),
    )


def _resolved(policy: Policy, budget: Budget, schedule: Schedule | None) -> Budget:
    """The budget as a number, or "auto"."""
    number = policy_budget(policy, budget, schedule)
    if budget != "auto":
        return number
    require_thresholds(policy.auto)
    return budget
