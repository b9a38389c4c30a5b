"""What tells a learned codec whose chunks it translates: a learned row for each embodiment.

    encoder    embedded actions + row of the embodiment
    decoder    queries of the steps + another row of it

A robot that was not there in training gets the mean of the rows. All robots share the other
weights, the codes and the vocabulary.

Shape letters: B chunk, N embodiment, D width.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from oatkit.errors import unknown_name
from oatkit.tokenizers.codec import Codec


class EmbodimentRows(nn.Module):
    """Rows of all embodiments, zero before training.

    Args:
        num_embodiments: Number of embodiments, N.
        width: Width of a row, D.
    """

    def __init__(self, num_embodiments: int, width: int) -> None:
        super().__init__()
        self.encoder = nn.Parameter(torch.zeros(num_embodiments, width))
        self.decoder = nn.Parameter(torch.zeros(num_embodiments, width))


def embodiment_rows(config: Any) -> EmbodimentRows | None:
    """The rows of a codec; None for one that is not told the embodiment."""
    return EmbodimentRows(len(config.embodiments), config.width) if config.embodiments else None


def add_row(x: Tensor, table_ND: Tensor, config: Any, embodiment_B: Tensor | None) -> Tensor:
    """Slots (1 or B, slots, D) with the row of their embodiment added.

    Args:
        x: The slots.
        table_ND: Rows of all embodiments.
        config: Config of the codec, which may name one embodiment for all chunks.
        embodiment_B: Number of each chunk's embodiment; None for that of the config.
    """
    if embodiment_B is not None:
        return x + table_ND[embodiment_B][:, None]
    if config.embodiment is None:
        return x + table_ND.mean(dim=0)
    return x + table_ND[config.embodiments.index(config.embodiment)]


def check_embodiment(embodiments: Sequence[str], embodiment: str | None) -> None:
    """Raise unless the embodiment of a config is one of those that it knows."""
    if len(set(embodiments)) < len(embodiments):
        raise ValueError(f"embodiments are {list(embodiments)}, expected a name once")
    if embodiment is not None and embodiment not in embodiments:
        raise ValueError(unknown_name("embodiment", embodiment, embodiments))


def for_embodiment(codec: Codec, embodiment: str | None) -> Codec:
    """The same codec, weights included, for the chunks of one embodiment.

    Args:
        codec: Codec of any kind; one that is not told the embodiment is given back.
        embodiment: Name of the embodiment; None for one that was not there in training.
    """
    if not getattr(codec.config, "embodiments", ()):
        return codec
    own: Any = copy.copy(codec)
    own.config = replace(codec.config, embodiment=embodiment)
    return own
