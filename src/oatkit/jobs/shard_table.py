"""The one list of works that are cut into shards, and what joins the records of each."""

from __future__ import annotations

from collections.abc import Callable

from oatkit.shards import Merge


def _evaluation() -> Merge:
    from oatkit.jobs.evaluation_shards import merge_evaluation

    return merge_evaluation


def _comparison() -> Merge:
    from oatkit.jobs.comparison_shards import merge_comparison

    return merge_comparison


def _tokenizer_sweep() -> Merge:
    from oatkit.jobs.tokenizer_sweep_shards import merge_tokenizer_sweep

    return merge_tokenizer_sweep


def _policy_sweep() -> Merge:
    from oatkit.jobs.policy_sweep_shards import merge_policy_sweep

    return merge_policy_sweep


def _demonstrations() -> Merge:
    from oatkit.jobs.demonstration_shards import merge_demonstrations

    return merge_demonstrations


def _tokens() -> Merge:
    from oatkit.jobs.token_shards import merge_tokens

    return merge_tokens


MERGES: dict[str, Callable[[], Merge]] = {
    "policy eval": _evaluation,
    "tokenizer compare": _comparison,
    "tokenizer sweep": _tokenizer_sweep,
    "policy sweep": _policy_sweep,
    "data make metaworld": _demonstrations,
    "data tokenize": _tokens,
}
"""Name of a work, which is its command, to what gives the function that joins its records."""
