"""The kinds of tokenizers: one row for each.

A new kind is one file with a config and a codec, and one row here: `docs/adding_a_tokenizer.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oatkit.errors import unknown_name
from oatkit.tokenizers.acodec import Acodec, AcodecConfig
from oatkit.tokenizers.bin import Bin, BinConfig
from oatkit.tokenizers.codec import Codec
from oatkit.tokenizers.corrected import Corrected
from oatkit.tokenizers.fast import Fast, FastConfig
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.oat import Oat, OatConfig
from oatkit.tokenizers.quest import Quest, QuestConfig
from oatkit.tokenizers.refined import Refined
from oatkit.types import NormalizationMode


@dataclass(frozen=True)
class Kind:
    """What a kind's name stands for."""

    config: Callable[..., Any]
    """Frozen dataclass with `kind`, `horizon`, `action_dim` and the settings of the kind."""
    codec: Callable[[Any], Codec]
    """Makes an untrained codec of a config."""
    color: str
    """Color in charts and in the lab, readable on light and dark. Those of all kinds are different
    to the color-blind too."""
    is_learned: bool = False
    """Whether gradient descent trains it; otherwise it is computed from the data or needs none."""
    normalization: NormalizationMode = "min_max"
    """How actions are normalized unless the user says otherwise."""

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of the settings that its config has, beside `kind`."""
        names = self.config.__dataclass_fields__  # type: ignore[attr-defined]
        return tuple(name for name in names if name != "kind")


def _oat(config: OatConfig) -> Oat | Refined:
    return Refined(config) if config.refine else Oat(config)


def _klt(config: KltConfig) -> Klt | Corrected:
    return Corrected(config) if config.correct else Klt(config)


KINDS: dict[str, Kind] = {
    "oat": Kind(OatConfig, _oat, "#2184c5", is_learned=True),
    "oat-pow2": Kind(OatConfig, _oat, "#e2784e", is_learned=True),
    "bin": Kind(BinConfig, Bin, "#61696c"),
    "fast": Kind(FastConfig, Fast, "#be9202", normalization="quantiles"),
    "quest": Kind(QuestConfig, Quest, "#7048d6", is_learned=True),
    "acodec": Kind(AcodecConfig, Acodec, "#ba1797", is_learned=True),
    "klt": Kind(KltConfig, _klt, "#1faf8a"),
}


def kind_named(name: str) -> Kind:
    """The row of a kind; an unknown name is an error that lists those that are known."""
    if name not in KINDS:
        raise ValueError(unknown_name("tokenizer kind", name, KINDS))
    return KINDS[name]


def make_codec(config: Any) -> Codec:
    """An untrained codec of the kind that the config names."""
    return kind_named(config.kind).codec(config)


def make_config(kind: str, **settings: Any) -> Any:
    """A kind's config; a setting it does not have is an error that lists those it has."""
    row = kind_named(kind)
    for name in settings:
        if name not in row.settings:
            raise ValueError(unknown_name(f"setting of {kind}", name, row.settings))
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    return row.config(kind=kind, **lists)
