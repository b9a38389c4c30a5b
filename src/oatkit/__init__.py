"""Ordered action tokens for robots.

    import oatkit

    dataset = oatkit.open_dataset("path/to/demonstrations")
    tokenizer = oatkit.train_tokenizer(dataset, "oat-pow2", "out/oat-pow2")
    policy = oatkit.train_policy(dataset, tokenizer, out="out/policy")

Names are loaded when first used, so that `import oatkit` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oatkit.data import (
        Chunks,
        Dataset,
        Episode,
        Mixture,
        Normalizer,
        Statistics,
        open_dataset,
        open_mixture,
    )
    from oatkit.errors import (
        ArtifactError,
        DatasetError,
        DecodeError,
        MissingExtraError,
        OatkitError,
        TrainingError,
    )
    from oatkit.jobs.mixture_policy_training import train_mixture_policy
    from oatkit.jobs.mixture_training import train_mixture_tokenizer
    from oatkit.jobs.policy_evaluation import evaluate
    from oatkit.jobs.policy_training import train_policy
    from oatkit.jobs.shard_launch import launch
    from oatkit.jobs.tokenizer_comparison import compare
    from oatkit.jobs.tokenizer_training import train_tokenizer
    from oatkit.policies import Policy, Prediction, load_policies, load_policy
    from oatkit.tokenizers import ActionTokenizer, load_tokenizer
    from oatkit.train import TrainConfig
    from oatkit.types import Sampling, Schedule, Tokens

__version__ = "0.1.0"

__all__ = [
    "ActionTokenizer",
    "ArtifactError",
    "Chunks",
    "Dataset",
    "DatasetError",
    "DecodeError",
    "Episode",
    "MissingExtraError",
    "Mixture",
    "Normalizer",
    "OatkitError",
    "Policy",
    "Prediction",
    "Sampling",
    "Schedule",
    "Statistics",
    "Tokens",
    "TrainConfig",
    "TrainingError",
    "compare",
    "evaluate",
    "launch",
    "load_policies",
    "load_policy",
    "load_tokenizer",
    "open_dataset",
    "open_mixture",
    "train_mixture_policy",
    "train_mixture_tokenizer",
    "train_policy",
    "train_tokenizer",
]

_HOMES = {
    "oatkit.data": (
        "Chunks",
        "Dataset",
        "Episode",
        "Mixture",
        "Normalizer",
        "Statistics",
        "open_dataset",
        "open_mixture",
    ),
    "oatkit.errors": (
        "ArtifactError",
        "DatasetError",
        "DecodeError",
        "MissingExtraError",
        "OatkitError",
        "TrainingError",
    ),
    "oatkit.jobs.mixture_policy_training": ("train_mixture_policy",),
    "oatkit.jobs.mixture_training": ("train_mixture_tokenizer",),
    "oatkit.jobs.policy_evaluation": ("evaluate",),
    "oatkit.jobs.policy_training": ("train_policy",),
    "oatkit.jobs.shard_launch": ("launch",),
    "oatkit.jobs.tokenizer_comparison": ("compare",),
    "oatkit.jobs.tokenizer_training": ("train_tokenizer",),
    "oatkit.policies": (
        "Policy",
        "Prediction",
        "load_policies",
        "load_policy",
    ),
    "oatkit.tokenizers": ("ActionTokenizer", "load_tokenizer"),
    "oatkit.train": ("TrainConfig",),
    "oatkit.types": ("Sampling", "Schedule", "Tokens"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'oatkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
