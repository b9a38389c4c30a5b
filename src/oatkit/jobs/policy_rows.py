"""A row of a table: a tokenizer, a policy on its tokens, and how that one is evaluated.

    PolicyRow("oat", budgets=(1, 2, 4, 8), options={"num_tokens": 8, "levels": (8, 5, 5, 5)})

Data only; `row_runs.py` trains and evaluates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oatkit.types import Budget, Decoding


@dataclass(frozen=True)
class PolicyRow:
    """A policy of a table, from its tokenizer to its evaluation.

    Attributes:
        kind: Kind of the tokenizer.
        budgets: Budgets to evaluate; all tokens if empty.
        options: Settings of the tokenizer that are not the preset's.
        tokenizer_steps: Training steps of the tokenizer, where they are not those of the others.
        steps: Training steps of the policy, where they are not those of the others.
        policy: Name of the policy.
        family: Family of its backbone, where it has one.
        endpoints: Schedule that the policy is trained under; the tokenizer's own if empty.
        offset_layers: Layers of the head by which a light policy corrects decoded chunks; none, as
            in the paper, by default.
        evaluate_by: Schedule that evaluation forces on it.
        execute: Number of steps of a chunk that are executed; half by default.
        decoding: What `fast` does with sequences that are no chunk; as the preset says by default.
        published: Digest of the published artifact that `fast` is; it is fitted if empty.
    """

    kind: str
    budgets: tuple[Budget, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_steps: int | None = None
    steps: int | None = None
    policy: str = "light"
    family: str | None = None
    endpoints: tuple[int, ...] = ()
    offset_layers: int = 0
    evaluate_by: tuple[int, ...] = ()
    execute: int | None = None
    decoding: Decoding | None = None
    published: str = ""

    @property
    def tokenizer_name(self) -> str:
        """Name of the folder of its tokenizer, which rows with the same one share."""
        changed = [f"{name}{_word(value)}" for name, value in self.options.items()]
        steps = [f"steps{self.tokenizer_steps}"] if self.tokenizer_steps else []
        published = [f"published{self.published}"] if self.published else []
        return "-".join([self.kind, *changed, *published, *steps])

    @property
    def policy_name(self) -> str:
        """Name of the folder of its policy, which rows that differ in evaluation alone share."""
        family = [self.family] if self.family else []
        schedule = ["by" + "_".join(map(str, self.endpoints))] if self.endpoints else []
        offset = [f"offset{self.offset_layers}"] if self.offset_layers else []
        steps = [f"policy_steps{self.steps}"] if self.steps else []
        return "-".join([self.policy, *family, self.tokenizer_name, *schedule, *offset, *steps])


def _word(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, tuple) else str(value)
