"""The one list of works that are cut into shards, and what joins the records of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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


def _metaworld() -> Merge:
    from oatkit.jobs.demonstration_shards import merge_demonstrations
    from oatkit.jobs.metaworld_demonstrations import TEACHER

    return partial(merge_demonstrations, TEACHER)


def _robosuite() -> Merge:
    from oatkit.jobs.demonstration_shards import merge_demonstrations
    from oatkit.jobs.robosuite_demonstrations import TEACHER

    return partial(merge_demonstrations, TEACHER)


def _conversion() -> Merge:
    from oatkit.jobs.conversion_shards import merge_conversion

    return merge_conversion


def _tokens() -> Merge:
    from oatkit.jobs.token_shards import merge_tokens

    return merge_tokens


def _reproduction() -> Merge:
    from oatkit.jobs.reproduction_shards import merge_reproduction

    return merge_reproduction


MERGES: dict[str, Callable[[], Merge]] = {
    "policy eval": _evaluation,
    "tokenizer compare": _comparison,
    "tokenizer sweep": _tokenizer_sweep,
    "policy sweep": _policy_sweep,
    "reproduce": _reproduction,
    "data make metaworld": _metaworld,
    "data make robosuite": _robosuite,
    "data convert": _conversion,
    "data tokenize": _tokens,
}
"""Name of a work, which is its command, to what gives the function that joins its records."""
