"""Options of loading and training a backbone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BackboneOptions:
    """How a backbone is loaded, and which of its parts are trained."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of its weights."""
    attention: Literal["eager", "sdpa"] | None = None
    """Attention implementation of `transformers`; by default sdpa, and eager in the language model
    of PaliGemma 2, which caps its scores."""
    device_map: str | None = None
    """Devices of its layers, as in `transformers`; all on one by default."""
    freeze_vision: bool = False
    """Do not train the vision tower."""
    freeze_language: bool = False
    """Do not train the language model; action tokens are trained nevertheless."""
    lora_rank: int = 0
    """Rank of adapters that are trained in place of the language model; 0 trains the model."""
    save_memory: bool = False
    """Compute layers again in the backward pass instead of keeping their activations."""

    def __post_init__(self) -> None:
        if self.lora_rank < 0:
            raise ValueError(f"lora_rank is {self.lora_rank}, expected 0 or more")
