"""Whether a tokenizer fits the data and the schedule of a policy to be trained."""

from __future__ import annotations

from oatkit.data import Dataset
from oatkit.tokenizers import ActionTokenizer


def require_same_actions(tokenizer: ActionTokenizer, dataset: Dataset) -> None:
    """Raise unless the tokenizer is for actions of this dataset's size."""
    if tokenizer.action_dim != dataset.action_dim:
        raise ValueError(
            f"the tokenizer is for {tokenizer.action_dim} action dimensions, {dataset.path} "
            f"has {dataset.action_dim}: name the columns with --action-key and --action-dims, or "
            "train a tokenizer on this data"
        )


def require_endpoints(endpoints: tuple[int, ...] | None, tokenizer: ActionTokenizer) -> None:
    """Raise unless a schedule other than the tokenizer's ends where the tokenizer does."""
    if endpoints is not None and endpoints[-1] != tokenizer.max_tokens:
        raise ValueError(
            f"the schedule ends at {endpoints[-1]} tokens, {tokenizer.kind} has "
            f"{tokenizer.max_tokens}"
        )
