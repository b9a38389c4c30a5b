"""Options of loading and training a backbone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oatkit.types import Dtype

FREEZING = ("freeze_vision", "train_vision", "freeze_language")
"""Options that may change when a trained policy is trained further."""


@dataclass(frozen=True)
class BackboneOptions:
    """How a backbone is loaded, and which of its parts are trained."""

    dtype: Dtype = "float32"
    """Type of the weights that are not trained, such as those that adapters (--lora-rank) are added
    to; trained weights are float32, and --precision is what training computes in."""
    attention: Literal["eager", "sdpa"] | None = None
    """Attention implementation of `transformers`; by default sdpa, and eager in the language model
    of PaliGemma 2, which caps its scores."""
    device_map: str | None = None
    """Devices of its layers, as in `transformers`; all on one by default."""
    freeze_vision: bool = False
    """Do not train the vision tower; adapters (--lora-rank) freeze it too."""
    train_vision: bool = False
    """Train the vision tower beside adapters (--lora-rank)."""
    freeze_language: bool = False
    """Do not train the language model; action tokens are trained nevertheless."""
    lora_rank: int = 0
    """Rank of adapters that are trained in place of the language model; 0 trains the model."""
    save_memory: bool = False
    """Compute layers again in the backward pass instead of keeping their activations."""

    def __post_init__(self) -> None:
        if self.lora_rank < 0:
            raise ValueError(f"lora_rank is {self.lora_rank}, expected 0 or more")
        if self.lora_rank and self.freeze_language:
            raise ValueError(
                "--lora-rank trains what --freeze-language freezes: leave one of them out"
            )
        if self.train_vision and (self.freeze_vision or not self.lora_rank):
            raise ValueError(
                "--train-vision is for --lora-rank without --freeze-vision: leave it out, the "
                "vision tower is trained without adapters unless it is frozen"
            )

    @property
    def is_vision_frozen(self) -> bool:
        """Whether the vision tower is not trained."""
        return self.freeze_vision or (self.lora_rank > 0 and not self.train_vision)

    @property
    def is_language_frozen(self) -> bool:
        """Whether the own weights of the language model are not trained."""
        return self.freeze_language or self.lora_rank > 0
