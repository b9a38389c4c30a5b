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
    color_axis = 2
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

    def pixel_shape(self, num_images: int, pixels: Tensor) -> tuple[int, ...]:
        return (num_images, -1, pixels.shape[-1])

    def num_image_slots(self, config: Any, pixel_shape: Sequence[int]) -> int:
        return int(pixel_shape[0]) // config.vision_config.spatial_merge_size**2

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
        self, model: Any, pixels_N: Tensor, grid: tuple[int, int] | None
    ) -> ImageFeatures:
        assert grid is not None
        merge = model.visual.spatial_merge_size
        grid_3 = torch.tensor([1, merge * grid[0], merge * grid[1]], device=pixels_N.device)
        found = model.visual(pixels_N.flatten(0, 1), grid_thw=grid_3.expand(len(pixels_N), 3))
        count = len(pixels_N)
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
