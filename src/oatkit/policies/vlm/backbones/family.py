"""What differs between families of vision-language models; one file each implements it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from oatkit.policies.vlm.backbones.prompt import Part, Slots

ROOM = 4096
"""Positions of a model with random weights."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What the vision tower makes of images.

    Attributes:
        features: (N, slots, width), one vector for every slot.
        deeper: Of the same shape, added to the slots after the first layers; often none.
    """

    features: Tensor
    deeper: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class ScratchSize:
    """Of a backbone with random weights."""

    width: int = 32
    """Of the language model."""
    num_layers: int = 2
    """Of the language model."""
    num_heads: int = 4
    """Attention heads of a layer."""
    num_kv_heads: int = 2
    """Heads that keys and values have; it divides the former."""
    head_dim: int = 8
    """Width of a head."""
    vision_width: int = 32
    """Of the vision tower."""
    vision_layers: int = 2
    """Of the vision tower."""
    image_size: int = 32
    """Height and width of what the vision tower reads, where it is fixed."""
    patch_size: int = 8
    """Pixels that a patch has on each side."""


class Family(Protocol):
    """One family; all arguments named `model` are its `transformers` model without a head."""

    name: str
    model_type: str
    """In the `config.json` of its checkpoints."""
    is_context_causal: bool
    first_position: int
    color_axis: int
    """Of processed pixels (N, ...): where the three colors are, outermost in that axis."""
    attention: str
    """The attention implementation that is right for it, unless the user asks for another."""

    @property
    def model_class(self) -> Any:
        """With its head."""

    def language_model(self, model: nn.Module) -> nn.Module: ...

    def vision_modules(self, model: nn.Module) -> list[nn.Module]: ...

    def vision_layers(self, model: nn.Module) -> Sequence[nn.Module]: ...

    def image_options(self) -> dict[str, Any]:
        """Further arguments of the image processor."""

    def pixel_shape(self, num_images: int, pixels: Tensor) -> tuple[int, ...]:
        """(N, ...) for what the image processor gives for images of one size."""

    def num_image_slots(self, config: Any, pixel_shape: Sequence[int]) -> int:
        """Of one image whose processed pixels have this shape."""

    def image_grid(self, processor: Any, size: tuple[int, int]) -> tuple[int, int] | None:
        """Rows and columns of an image's slots, where positions are two-dimensional."""

    def parts(
        self, tokenizer: Any, image_slots: Sequence[tuple[int, Any]], num_states: int
    ) -> list[Part]:
        """The prompt with images of so many slots and that grid each."""

    def task_text(self, task: str, has_images: bool) -> str:
        """What is tokenized for the `task` part."""

    def see(self, model: nn.Module, pixels_N: Tensor, grid: tuple[int, int] | None) -> Seen:
        """Features of normalized pixels (N, ...)."""

    def run(
        self,
        model: nn.Module,
        embeds_BGD: Tensor,
        positions_3BG: Tensor,
        mask_B1GS: Tensor,
        cache: Any,
        seen: tuple[Slots, tuple[Tensor, ...]] | None = None,
    ) -> Tensor:
        """Hidden states (B, G, D) of the language model; `mask` is added to the scores."""

    def scratch(self, size: ScratchSize, corpus: Sequence[str]) -> tuple[Any, Any, Any]:
        """Config, tokenizer and image processor of a model with random weights."""
