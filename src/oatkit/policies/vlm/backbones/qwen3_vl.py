"""Qwen3-VL: images of any shape, a causal context and three-dimensional positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Qwen2Tokenizer, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from oatkit.policies.vlm.backbones.family import SCRATCH_POSITIONS, ImageFeatures, ScratchSize
from oatkit.policies.vlm.backbones.prompt import Part, Slots, chat_prompt
from oatkit.policies.vlm.backbones.prompt_text import text_ids, train_bpe

SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)


class Qwen3VL:
    """The family; see `Family`."""

    name = "qwen3-vl"
    model_type = "qwen3_vl"
    is_context_causal = True
    first_position = 0
    attention = "sdpa"

    @property
    def model_class(self) -> Any:
        return Qwen3VLForConditionalGeneration

    def language_model(self, model: Any) -> nn.Module:
        return model.language_model

    def vision_modules(self, model: Any) -> list[nn.Module]:
        return [model.visual]

    def vision_layers(self, model: Any) -> Sequence[nn.Module]:
        return model.visual.blocks

    def image_options(self) -> dict[str, Any]:
        return {}

    def resized_images(self, processor: Any, found: Any) -> Tensor:
        _, rows, columns = found["image_grid_thw"][0].tolist()
        return from_patches(
            found["pixel_values"], rows, columns, processor.patch_size, processor.merge_size
        )

    def num_image_slots(self, config: Any, pixel_shape: Sequence[int]) -> int:
        vision = config.vision_config
        side = vision.patch_size * vision.spatial_merge_size
        return (pixel_shape[-2] // side) * (pixel_shape[-1] // side)

    def image_grid(self, processor: Any, size: tuple[int, int]) -> tuple[int, int] | None:
        blank = torch.zeros(3, *size, dtype=torch.uint8).numpy()
        found = processor([blank], input_data_format="channels_first", return_tensors="pt")
        _, rows, columns = found["image_grid_thw"][0].tolist()
        return rows // processor.merge_size, columns // processor.merge_size

    def parts(
        self, tokenizer: Any, image_slots: Sequence[tuple[int, Any]], num_states: int
    ) -> list[Part]:
        return chat_prompt(
            lambda text: text_ids(tokenizer, text),
            image_slots,
            num_states,
            opening="<|im_start|>",
            user="user\n",
            around_image=("<|vision_start|>", "<|vision_end|>"),
            answer="<|im_end|>\n<|im_start|>assistant\n",
        )

    def task_text(self, task: str, has_images: bool) -> str:
        return task if has_images else f"user\n{task}"

    def encode_images(
        self, model: Any, images_N3HW: Tensor, grid: tuple[int, int] | None
    ) -> ImageFeatures:
        assert grid is not None
        vision, count = model.visual.config, len(images_N3HW)
        merge = vision.spatial_merge_size
        patches_PD = to_patches(images_N3HW, vision.patch_size, merge, vision.temporal_patch_size)
        grid_3 = torch.tensor([1, merge * grid[0], merge * grid[1]], device=images_N3HW.device)
        found = model.visual(patches_PD, grid_thw=grid_3.expand(count, 3))
        return ImageFeatures(
            found.pooler_output.unflatten(0, (count, -1)),
            tuple(level.unflatten(0, (count, -1)) for level in found.deepstack_features),
        )

    def run(
        self,
        model: Any,
        embeds_BGD: Tensor,
        positions_3BG: Tensor,
        mask_B1GS: Tensor,
        cache: Any,
        deepstack: tuple[Slots, tuple[Tensor, ...]] | None = None,
    ) -> Tensor:
        # the language model alone: the full model keeps position offsets of its last call
        visual: dict[str, Any] = {}
        if deepstack is not None:
            slots, levels = deepstack
            visual["visual_pos_masks"] = slots.is_image.expand(len(embeds_BGD), -1)
            visual["deepstack_visual_embeds"] = [level.flatten(0, 1) for level in levels]
        found: Tensor = model.language_model(
            inputs_embeds=embeds_BGD,
            position_ids=positions_3BG,
            attention_mask=mask_B1GS,
            past_key_values=cache,
            use_cache=False,
            **visual,
        ).last_hidden_state
        return found

    def scratch(self, size: ScratchSize, corpus: Sequence[str]) -> tuple[Any, Any, Any]:
        vocab, merges = train_bpe(corpus, SPECIAL)
        tokenizer = Qwen2Tokenizer(vocab=vocab, merges=merges)
        tokenizer.add_tokens(list(SPECIAL), special_tokens=True)
        half = size.head_dim // 2
        sections = [half - 2 * (half // 3), half // 3, half // 3]
        config = Qwen3VLConfig(
            text_config={
                "vocab_size": len(tokenizer),
                "hidden_size": size.width,
                "intermediate_size": 4 * size.width,
                "num_hidden_layers": size.num_layers,
                "num_attention_heads": size.num_heads,
                "num_key_value_heads": size.num_kv_heads,
                "head_dim": size.head_dim,
                "max_position_embeddings": SCRATCH_POSITIONS,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 5e6,
                    "mrope_section": sections,
                    "mrope_interleaved": True,
                },
                "tie_word_embeddings": True,
            },
            vision_config={
                "depth": size.vision_layers,
                "hidden_size": size.vision_width,
                "intermediate_size": 4 * size.vision_width,
                "num_heads": 4,
                "patch_size": size.patch_size,
                "out_hidden_size": size.width,
                "num_position_embeddings": 64,
                "deepstack_visual_indexes": [0],
            },
            image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
            video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
            vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
            vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
            tie_word_embeddings=True,
        )
        pixels = size.image_size**2
        images = Qwen2VLImageProcessorPil(
            size={"shortest_edge": pixels // 4, "longest_edge": pixels},
            patch_size=size.patch_size,
            merge_size=2,
            image_mean=[0.5, 0.5, 0.5],
            image_std=[0.5, 0.5, 0.5],
        )
        return config, tokenizer, images


def to_patches(images_N3HW: Tensor, size: int, merge: int, num_frames: int) -> Tensor:
    """Patches (P, D) of images in the model's order, as its image processor cuts them.

    Args:
        images_N3HW: Images whose height and width are multiples of `size` times `merge`.
        size: Height and width of a patch.
        merge: Rows and columns of patches that become one slot; they follow each other.
        num_frames: Number of frames in a patch, which an image repeats.
    """
    count, colors, height, width = images_N3HW.shape
    side = size * merge
    sizes = (count, colors, height // side, merge, size, width // side, merge, size)
    patches = images_N3HW.reshape(sizes).permute(0, 2, 5, 3, 6, 1, 4, 7)
    frames = patches.unsqueeze(-3).expand(*patches.shape[:-2], num_frames, size, size)
    return frames.reshape(count * (height // size) * (width // size), -1)


def from_patches(patches_PD: Tensor, rows: int, columns: int, size: int, merge: int) -> Tensor:
    """The inverse of `to_patches`: images (N, 3, H, W) of so many rows and columns of patches."""
    grid = (rows // merge, columns // merge, merge, merge)
    first = patches_PD.view(-1, *grid, 3, patches_PD.shape[1] // (3 * size**2), size, size)[
        ..., 0, :, :
    ]
    images = first.permute(0, 5, 1, 3, 6, 2, 4, 7)
    return images.reshape(len(first), 3, rows * size, columns * size)
