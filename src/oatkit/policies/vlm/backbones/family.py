"""What differs between families of vision-language models; each family has a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from oatkit.policies.vlm.backbones.prompt import Part, Slots

SCRATCH_POSITIONS = 4096
"""Number of positions of a model with random weights."""


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """Images as the vision tower encodes them.

    Attributes:
        slots: (N, slots, width), one vector for every slot of an image.
        deepstack: Tensors of the same shape that are added to the slots after the first layers of
            the language model, one tensor per layer; most families have none.
    """

    slots: Tensor
    deepstack: tuple[Tensor, ...] = ()

    def split(self, count: int) -> list[ImageFeatures]:
        """So many equal shares of the images, in order."""
        levels = [level.chunk(count) for level in (self.slots, *self.deepstack)]
        return [ImageFeatures(slots, tuple(others)) for slots, *others in zip(*levels, strict=True)]


@dataclass(frozen=True)
class ScratchSize:
    """Size of a backbone with random weights."""

    width: int = 32
    """Width of the language model."""
    num_layers: int = 2
    """Number of layers of the language model."""
    num_heads: int = 4
    """Number of attention heads of a layer."""
    num_kv_heads: int = 2
    """Number of key and value heads of a layer; it divides the number of attention heads."""
    head_dim: int = 8
    """Width of a head."""
    vision_width: int = 32
    """Width of the vision tower."""
    vision_layers: int = 2
    """Number of layers of the vision tower."""
    image_size: int = 32
    """Height and width of the images that the vision tower reads, where they are fixed."""
    patch_size: int = 8
    """Height and width of a patch in pixels."""


class Family(Protocol):
    """A family of vision-language models.

    All arguments named `model` are its `transformers` model without a head.
    """

    name: str
    """Name in the table of families."""
    model_type: str
    """`model_type` in the `config.json` of its checkpoints."""
    is_context_causal: bool
    """Whether a slot of the context sees only those before it; otherwise it sees all."""
    first_position: int
    """Position of the first slot."""
    attention: str
    """Default attention implementation of the language model; the vision tower has `sdpa`."""

    @property
    def model_class(self) -> Any:
        """Class of `transformers` that loads a checkpoint, with its head."""

    def language_model(self, model: nn.Module) -> nn.Module:
        """The language model, whose `layers` have the modules that those of Llama have."""

    def vision_modules(self, model: nn.Module) -> list[nn.Module]:
        """All modules that images go through, which are frozen together."""

    def vision_layers(self, model: nn.Module) -> Sequence[nn.Module]:
        """The layers of the vision tower."""

    def image_options(self) -> dict[str, Any]:
        """Further arguments of the image processor."""

    def resized_images(self, processor: Any, found: Any) -> Tensor:
        """Images (N, 3, H, W) in what the image processor gives for images of one size."""

    def num_image_slots(self, config: Any, pixel_shape: Sequence[int]) -> int:
        """Number of slots of an image whose resized pixels have this shape, (3, H, W)."""

    def image_grid(self, processor: Any, size: tuple[int, int]) -> tuple[int, int] | None:
        """Rows and columns of an image's slots; None where positions are one-dimensional."""

    def parts(
        self, tokenizer: Any, image_slots: Sequence[tuple[int, Any]], num_states: int
    ) -> list[Part]:
        """The prompt, given the number of slots and the grid of every image."""

    def task_text(self, task: str, has_images: bool) -> str:
        """Text of the `task` part of the prompt, which is tokenized as one piece."""

    def encode_images(
        self, model: nn.Module, images_N3HW: Tensor, grid: tuple[int, int] | None
    ) -> ImageFeatures:
        """Features of normalized images."""

    def run(
        self,
        model: nn.Module,
        embeds_BGD: Tensor,
        positions_3BG: Tensor,
        mask_B1GS: Tensor,
        cache: Any,
        deepstack: tuple[Slots, tuple[Tensor, ...]] | None = None,
    ) -> Tensor:
        """Hidden states (B, G, D) of the language model.

        Args:
            model: The model without a head.
            embeds_BGD: Vectors of the slots.
            positions_3BG: Positions of the slots: time, row and column, equal outside of images.
            mask_B1GS: Numbers that are added to the attention scores.
            cache: Keys and values before, whose `update` every layer calls.
            deepstack: The slots of the context, and `ImageFeatures.deepstack` of its images.
        """

    def scratch(self, size: ScratchSize, corpus: Sequence[str]) -> tuple[Any, Any, Any]:
        """Config, tokenizer and image processor of a model with random weights."""
