"""Named configurations of tokenizers, policies and their training.

paper-light   the rows of the paper's light table. Tokenizers: 6 layers, 8 heads, width 256, of oat
              8 tokens with levels 8 5 5 5; AdamW 5e-5 constant, batch 512. Policies: about 5M
              parameters; AdamW 1e-4, cosine to a tenth, batch 16. fast decodes strictly
paper-vlm     the rows of its vision-language tables. Tokenizers of the same size with 16 tokens and
              levels 8 8 6 5; fast pads and cuts sequences that are no chunk
paper         for tokenizers and vision-language policies paper-vlm, for light ones paper-light
small         a CPU in minutes; what the demo uses
tiny          a CPU in seconds; what the tests use

What the paper does not state is ours: the numbers of training steps; of the light policy the two
frames, the context layer, dropout, image sizes and crops, and its encoder (5.3M parameters from
state, 16.5M with a camera); the width of the flow expert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from oatkit.errors import unknown_name
from oatkit.policies import LightConfig
from oatkit.policies.vlm.vlm_config import OBJECTIVES, ExpertConfig
from oatkit.tokenizers.kind_table import kind_named
from oatkit.train import TrainConfig

Preset = TypeVar("Preset")


@dataclass(frozen=True)
class TokenizerPreset:
    """Sizes of the learned kinds, equal for all of them, and how they are trained."""

    sizes: dict[str, int]
    """Settings by name; a kind takes those that its config has."""
    train: TrainConfig
    by_kind: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Kind to further settings of it alone."""

    def settings(self, kind: str) -> dict[str, Any]:
        """The part of a kind's config that the preset decides."""
        known = kind_named(kind).settings
        shared = {name: size for name, size in self.sizes.items() if name in known}
        return shared | dict(self.by_kind.get(kind, {}))


_TINY = TrainConfig(
    steps=60,
    batch_size=64,
    learning_rate=3e-3,
    schedule="cosine",
    warmup_steps=10,
    checkpoint_every=20,
    evaluate_every=20,
    log_every=5,
)
_SMALL = TrainConfig(
    steps=8000,
    batch_size=128,
    optimizer="soap",
    learning_rate=1e-2,
    betas=(0.95, 0.95),
    schedule="cosine",
    min_ratio=0.01,
    warmup_steps=100,
    ema=0.995,
)
_PAPER_TOKENIZER = TokenizerPreset(
    sizes={
        "width": 256,
        "num_layers": 6,
        "num_heads": 8,
        "codebook_size": 2048,
        "latent_dim": 512,
    },
    train=TrainConfig(steps=100_000, batch_size=512, learning_rate=5e-5),  # the steps are ours
)
_LIGHT_OAT = {"num_tokens": 8, "levels": (8, 5, 5, 5)}
_VLM_OAT = {"num_tokens": 16, "levels": (8, 8, 6, 5)}
_PAPER_POLICY = TrainConfig(
    steps=100_000,  # ours
    batch_size=16,
    learning_rate=1e-4,
    schedule="cosine",
    min_ratio=0.1,
    weight_decay=1e-6,
)


TOKENIZER_PRESETS = {
    "tiny": TokenizerPreset(
        sizes={"width": 32, "num_layers": 1, "num_heads": 4, "codebook_size": 64, "latent_dim": 8},
        train=_TINY,
    ),
    "small": TokenizerPreset(
        sizes={
            "width": 64,
            "num_layers": 2,
            "num_heads": 4,
            "codebook_size": 2048,
            "latent_dim": 64,
        },
        train=_SMALL,
    ),
    "paper-light": replace(
        _PAPER_TOKENIZER,
        by_kind={
            "oat": _LIGHT_OAT,
            "oat-pow2": _LIGHT_OAT,
            "quest": {"levels": (8, 8, 6, 5)},
            "fast": {"decoding": "strict"},
        },
    ),
    "paper-vlm": replace(
        _PAPER_TOKENIZER,
        by_kind={
            "oat": _VLM_OAT,
            "oat-pow2": _VLM_OAT,
            "quest": {"levels": (8, 8, 6, 5)},
            "acodec": {"num_tokens": 16},
            "fast": {"decoding": "relaxed"},
        },
    ),
}
TOKENIZER_PRESETS["paper"] = TOKENIZER_PRESETS["paper-vlm"]


def tokenizer_preset(name: str) -> TokenizerPreset:
    """The preset of tokenizers with this name."""
    return _named(name, TOKENIZER_PRESETS)


@dataclass(frozen=True)
class PolicyPreset:
    """A light policy, on tokens or with a flow head, how many frames it sees and how it is
    trained."""

    net: LightConfig
    train: TrainConfig
    history: int = 2
    """Number of frames; the paper does not state its own."""
    flow_steps: int | None = None
    """Training steps of a flow head, where they are fewer: each takes several times as long."""
    row_steps: int | None = None
    """Training steps of a row of a table or sweep, which has many, where they are fewer."""


_SMALL_POLICY = PolicyPreset(
    LightConfig(width=128, num_layers=3, image_channels=16, code_smoothing=1.0, offset_layers=3),
    replace(
        _SMALL,
        steps=10_000,
        batch_size=64,
        learning_rate=3e-3,
        betas=TrainConfig.betas,
        warmup_steps=200,
        weight_decay=1e-6,
    ),
    history=1,
    flow_steps=2500,
    row_steps=2500,
)

POLICY_PRESETS = {
    "tiny": PolicyPreset(
        LightConfig(
            width=32,
            num_layers=1,
            num_heads=2,
            dropout=0.0,
            image_size=40,
            crop_size=36,
            image_channels=4,
            num_points=8,
        ),
        replace(_TINY, batch_size=32),
    ),
    "small": _SMALL_POLICY,
    "paper-light": PolicyPreset(LightConfig(), _PAPER_POLICY),
}
POLICY_PRESETS["paper"] = POLICY_PRESETS["paper-light"]


def policy_preset(name: str) -> PolicyPreset:
    """The preset of light policies with this name."""
    return _named(name, POLICY_PRESETS)


@dataclass(frozen=True)
class VlmPreset:
    """The flow expert of a vision-language policy and how the policy is trained."""

    expert: ExpertConfig
    train: TrainConfig


_SMALL_VLM = TrainConfig(
    steps=3000,
    batch_size=32,
    learning_rate=1e-3,
    schedule="cosine",
    min_ratio=0.05,
    warmup_steps=100,
    weight_decay=1e-6,
    evaluate_every=500,
)
_TINY_VLM = replace(_TINY, steps=30, batch_size=8, warmup_steps=5)
_PAPER_VLM = replace(_PAPER_POLICY, steps=60_000, workers=4)  # the steps are ours
_COTRAINED = replace(_PAPER_VLM, batch_size=32, learning_rate=5e-5, schedule="constant")

VLM_PRESETS = {
    "tiny": dict.fromkeys(OBJECTIVES, VlmPreset(ExpertConfig(width=32), _TINY_VLM)),
    "small": dict.fromkeys(OBJECTIVES, VlmPreset(ExpertConfig(width=128), _SMALL_VLM)),
    "paper-vlm": {
        "vlm-ar": VlmPreset(ExpertConfig(), _PAPER_VLM),
        "vlm-tc": VlmPreset(ExpertConfig(), _COTRAINED),
        "vlm-flow": VlmPreset(ExpertConfig(), _COTRAINED),
    },
}
VLM_PRESETS["paper"] = VLM_PRESETS["paper-vlm"]
"""Presets by name and objective; `small` and `tiny` are for backbones with random weights."""


def vlm_preset(name: str, objective: str) -> VlmPreset:
    """The preset of an objective of vision-language policies with this name."""
    return _named(name, VLM_PRESETS)[objective]


def _named(name: str, presets: Mapping[str, Preset]) -> Preset:
    if name not in presets:
        raise ValueError(unknown_name("preset", name, presets))
    return presets[name]
