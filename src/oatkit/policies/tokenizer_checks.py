"""Whether a tokenizer fits the data and the schedule of a policy to be trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oatkit.data import Dataset, Normalizer
from oatkit.errors import ArtifactError
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.tokenizers import ActionTokenizer


def require_same_actions(tokenizer: ActionTokenizer, dataset: Dataset) -> None:
    """Raise unless the tokenizer is for actions of this size, represented as the dataset says."""
    if tokenizer.action_dim != dataset.action_dim:
        raise ValueError(
            f"the tokenizer is for {tokenizer.action_dim} action dimensions, {dataset.path} "
            f"has {dataset.action_dim}: name the columns with --action-key and --action-dims, or "
            "train a tokenizer on this data"
        )
    own, other = tokenizer.normalizer.transform, dataset.transform
    if other is not None and other.fitted(tokenizer.data.statistics) != own:
        raise ValueError(
            f"the tokenizer represents actions as {own or 'absolute'}, the dataset was opened with "
            f"{other}: open it alike, or train a tokenizer on it"
        )


def reads_start_state(actions: Normalizer, spec: ObservationSpec) -> bool:
    """Whether actions are relative to the state, which the policy then must read."""
    transform = actions.transform
    if transform is None or not transform.needs_state:
        return False
    if spec.state_dim != transform.state_dim:
        found = f"reads {spec.state_dim}" if spec.state_dim else "does not read it"
        raise ValueError(
            f"the actions {transform} are relative to a state of {transform.state_dim} dimensions, "
            f"and the policy {found}: give it the same --state-key (without --no-state), or "
            "represent actions in another way"
        )
    return True


def require_endpoints(endpoints: tuple[int, ...] | None, tokenizer: ActionTokenizer) -> None:
    """Raise unless a schedule other than the tokenizer's ends where the tokenizer does."""
    if endpoints is not None and endpoints[-1] != tokenizer.max_tokens:
        raise ValueError(
            f"the schedule ends at {endpoints[-1]} tokens, {tokenizer.kind} has "
            f"{tokenizer.max_tokens}"
        )


def require_trained_tokenizer(
    path: Path, tokenizer: ActionTokenizer, values: Mapping[str, Any]
) -> None:
    """Raise unless the tokenizer in an artifact is the one that its policy was trained on.

    Args:
        path: Where the artifact lies.
        tokenizer: The tokenizer in it.
        values: What its `config.json` holds.
    """
    if tokenizer.vocab_size != values["vocab_size"]:
        raise ArtifactError(
            f"{path} was trained on {values['vocab_size']} action tokens, its tokenizer has "
            f"{tokenizer.vocab_size}: put the tokenizer of its training back"
        )
    if values.get("tokenizer_digest") not in (None, tokenizer.digest):
        raise ArtifactError(
            f"{path} was trained on other tokens than those of {tokenizer}: put the tokenizer of "
            "its training back"
        )
