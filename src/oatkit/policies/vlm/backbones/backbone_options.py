"""How a backbone is loaded and which of its parts are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BackboneOptions:
    """Of loading and training a backbone."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of its weights."""
    attention: Literal["eager", "sdpa"] | None = None
    """Attention implementation; the family's own by default."""
    device_map: str | None = None
    """Where its layers go, as in `transformers`; one device by default."""
    freeze_vision: bool = False
    """Leave the vision tower as it is."""
    freeze_language: bool = False
    """Leave the language model as it is; action tokens are trained all the same."""
    lora_rank: int = 0
    """Train low-rank adapters of the language model instead of its weights; 0 for none."""
    save_memory: bool = False
    """Compute layers again in the backward pass instead of keeping what they gave."""

    def __post_init__(self) -> None:
        if self.lora_rank < 0:
            raise ValueError(f"lora_rank is {self.lora_rank}, expected 0 or more")
