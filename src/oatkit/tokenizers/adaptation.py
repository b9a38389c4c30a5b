"""A trained codec for another robot: its normalizer and mask are fitted, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oatkit.data import Dataset
from oatkit.data.action_normalizer import fit_action_normalizer
from oatkit.tokenizers.codec import Codec
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.tokenizers.embodiment_rows import for_embodiment
from oatkit.tokenizers.rate_distortion import held_out_chunks, rate_distortion
from oatkit.types import NormalizationMode

if TYPE_CHECKING:
    from oatkit.tokenizers.action_tokenizer import ActionTokenizer

HELD_OUT = 0.1


def embodied(
    make: type[ActionTokenizer],
    codec: Codec,
    dataset: Dataset,
    mode: NormalizationMode,
    horizon: int,
) -> ActionTokenizer:
    """A tokenizer of a codec whose chunks may be longer and have more dimensions.

    Args:
        make: The class of tokenizers.
        codec: Codec of any kind.
        dataset: Demonstrations that the normalizer is fitted on.
        mode: How actions are normalized.
        horizon: Number of actions in a chunk of this robot.
    """
    if dataset.represented_dim > codec.config.action_dim:
        raise ValueError(
            f"{dataset.path} has {dataset.represented_dim} action dimensions, the tokenizer has "
            f"room for {codec.config.action_dim}: train one on a mixture with this robot"
        )
    facts = DataFacts.of_dataset(dataset)
    normalizer = fit_action_normalizer(dataset, facts.statistics, mode, dataset.transform, horizon)
    return make(codec, normalizer, facts, horizon=horizon)


def adapted(tokenizer: ActionTokenizer, dataset: Dataset, horizon: int | None) -> ActionTokenizer:
    """See `ActionTokenizer.adapt`."""
    train_set, held_out_set = dataset.split(HELD_OUT)
    steps = tokenizer.horizon if horizon is None else horizon
    codec = for_embodiment(tokenizer.codec, None)
    found = embodied(type(tokenizer), codec, train_set, tokenizer.normalizer.mode, steps)
    rows = rate_distortion(found, *held_out_chunks(found, held_out_set))
    found.extras = {
        "split": {"held_out": HELD_OUT, "seed": 0},
        "adapted_from": tokenizer.digest,
        "rate_distortion": rows,
    }
    return found
