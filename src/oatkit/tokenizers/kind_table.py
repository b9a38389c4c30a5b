"""The kinds of tokenizers: name, configuration and codec of each.

A new kind is one file with a config and a codec, and one entry here; with a decoder in `onnx` it
can be exported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oatkit.errors import unknown_name
from oatkit.tokenizers.acodec import Acodec, AcodecConfig
from oatkit.tokenizers.bin import Bin, BinConfig
from oatkit.tokenizers.codec import Codec
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
    codec: Callable[[Any], Codec]
    color: str
    """In charts and in the lab; told apart by the color-blind, readable on light and dark."""
    normalization: NormalizationMode = "min_max"
    """How actions are normalized unless the user says otherwise."""


def _oat(config: OatConfig) -> Oat | Refined:
    return Refined(config) if config.refine else Oat(config)


KINDS: dict[str, Kind] = {
    "oat": Kind(OatConfig, _oat, "#2184c5"),
    "oat-pow2": Kind(OatConfig, _oat, "#e2784e"),
    "bin": Kind(BinConfig, Bin, "#61696c"),
    "fast": Kind(FastConfig, Fast, "#be9202", normalization="quantiles"),
    "quest": Kind(QuestConfig, Quest, "#7048d6"),
    "acodec": Kind(AcodecConfig, Acodec, "#ba1797"),
    "klt": Kind(KltConfig, Klt, "#1faf8a"),
}


def kind_named(name: str) -> Kind:
    if name not in KINDS:
        raise ValueError(unknown_name("tokenizer kind", name, KINDS))
    return KINDS[name]


def make_codec(config: Any) -> Codec:
    """An untrained codec of the kind that the config names."""
    return kind_named(config.kind).codec(config)


def make_config(kind: str, **settings: Any) -> Any:
    """A kind's config; a setting it does not have is an error that lists those it has."""
    config = kind_named(kind).config
    known = [name for name in config.__dataclass_fields__ if name != "kind"]  # type: ignore[attr-defined]
    for name in settings:
        if name not in known:
            raise ValueError(unknown_name(f"setting of {kind}", name, known))
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    return config(kind=kind, **lists)
