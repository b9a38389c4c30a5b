"""Configurations of the light policies: on tokens, and with a flow head."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from oatkit.tokenizers.codec import UNWRITTEN_DEFAULT

SMALLEST_CROP = 33


@dataclass(frozen=True)
class LightConfig:
    """The network and the schedule it is trained under."""

    kind: ClassVar[str] = "light"
    width: int = 256
    num_layers: int = 4
    num_heads: int = 4
    context_layers: int = 1
    """Layers in which the parts of an observation read each other."""
    dropout: float = 0.1
    image_size: int = 96
    """Height and width to which images are resized."""
    crop_size: int = 84
    """Height and width of the part that is read: a random one in training, the middle otherwise."""
    image_channels: int = 64
    """Number of channels of the first stage of the image encoders."""
    num_points: int = 32
    """Number of feature maps per image whose mean position (spatial softmax) is read."""
    endpoints: tuple[int, ...] | None = None
    """The schedule; the tokenizer's own by default."""
    code_smoothing: float = field(default=0.0, metadata=UNWRITTEN_DEFAULT)
    """Standard deviation, in levels of a code, of the training targets around the true ids; 0 takes
    the true ids alone, as do kinds whose ids are no points of a grid (`fast`, `acodec`, `klt`)."""
    offset_layers: int = field(default=0, metadata=UNWRITTEN_DEFAULT)
    """Number of layers of the head that corrects decoded chunks by what is observed; 0 for none."""

    def __post_init__(self) -> None:
        for name in ("width", "num_layers", "num_heads", "image_channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.width % self.num_heads:
            raise ValueError(f"width {self.width} is not divisible by {self.num_heads} heads")
        if self.offset_layers < 0:
            raise ValueError(f"offset_layers is {self.offset_layers}, expected 0 or more")
        if not 0 <= self.code_smoothing < math.inf:
            raise ValueError(f"code_smoothing is {self.code_smoothing}, expected 0 or more levels")
        if self.crop_size < SMALLEST_CROP:
            raise ValueError(
                f"crop_size is {self.crop_size}, expected at least {SMALLEST_CROP}: the encoder "
                "halves it five times, and one pixel has no position"
            )
        if self.crop_size > self.image_size:
            raise ValueError(f"crop_size {self.crop_size} exceeds image_size {self.image_size}")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LightConfig:
        """A config of what `written_settings` makes of one."""
        endpoints = values["endpoints"]
        return cls(**{**values, "endpoints": None if endpoints is None else tuple(endpoints)})


@dataclass(frozen=True)
class LightFlowConfig:
    """The light network with a flow head in place of tokens."""

    kind: ClassVar[str] = "light-flow"
    sizes: LightConfig = LightConfig()
    """Sizes of the light policy, which encoder and head share."""
    num_steps: int = 10
    """Number of Euler steps from noise to actions."""
    flow_draws: int = 4
    """Number of times and noises at which training computes the velocity of a chunk; they share one
    encoded observation."""
    mask_padding: bool = False
    """Whether steps past the end of an episode are left out of the loss."""

    def __post_init__(self) -> None:
        for name in ("num_steps", "flow_draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.sizes.endpoints is not None:
            raise ValueError("light-flow has no schedule: leave --endpoints out")
        if self.sizes.code_smoothing:
            raise ValueError("light-flow has no tokens: leave --code-smoothing out")
        if self.sizes.offset_layers:
            raise ValueError("light-flow decodes nothing to correct: leave --offset-layers out")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> LightFlowConfig:
        """A config of what `dataclasses.asdict` makes of one."""
        return cls(**{**values, "sizes": LightConfig(**values["sizes"])})
