"""PaliGemma 2: SigLIP and Gemma 2, with full attention over the context and positions from 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import (
    Gemma2Config,
    GemmaTokenizer,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    SiglipVisionConfig,
)
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from oatkit.policies.vlm.backbones.family import SCRATCH_POSITIONS, ImageFeatures, ScratchSize
from oatkit.policies.vlm.backbones.prompt import Part, Slots
from oatkit.policies.vlm.backbones.prompt_text import train_bpe

IMAGE = "<image>"


class PaliGemma2:
    """The family; see `Family`."""

    name = "paligemma2"
    model_type = "paligemma"
    is_context_causal = False
    first_position = 1
    attention = "eager"  # Gemma 2 caps its scores, which sdpa cannot

    @property
    def model_class(self) -> Any:
        return PaliGemmaForConditionalGeneration

    def language_model(self, model: Any) -> nn.Module:
        return model.language_model

    def vision_modules(self, model: Any) -> list[nn.Module]:
        return [model.vision_tower, model.multi_modal_projector]

    def vision_layers(self, model: Any) -> Sequence[nn.Module]:
        return model.vision_tower.encoder.layers

    def image_options(self) -> dict[str, Any]:
        return {}

    def resized_images(self, processor: Any, found: Any) -> Tensor:
        images_N3HW: Tensor = found["pixel_values"]
        return images_N3HW

    def num_image_slots(self, config: Any, pixel_shape: Sequence[int]) -> int:
        return (pixel_shape[-1] // config.vision_config.patch_size) ** 2

    def image_grid(self, processor: Any, size: tuple[int, int]) -> tuple[int, int] | None:
        return None

    def parts(
        self, tokenizer: Any, image_slots: Sequence[tuple[int, Any]], num_states: int
    ) -> list[Part]:
        """Images, then <bos>, then the instruction and a line break, then states."""
        images = [
            Part("image", num_slots=slots, image=number)
            for number, (slots, _) in enumerate(image_slots)
        ]
        states = [Part("state", num_slots=num_states)] if num_states else []
        return [*images, Part("text", (tokenizer.bos_token_id,)), Part("task"), *states]

    def task_text(self, task: str, has_images: bool) -> str:
        return f"{task}\n"

    def encode_images(
        self, model: Any, images_N3HW: Tensor, grid: tuple[int, int] | None
    ) -> ImageFeatures:
        return ImageFeatures(model.get_image_features(images_N3HW).pooler_output)

    def run(
        self,
        model: Any,
        embeds_BGD: Tensor,
        positions_3BG: Tensor,
        mask_B1GS: Tensor,
        cache: Any,
        deepstack: tuple[Slots, tuple[Tensor, ...]] | None = None,
    ) -> Tensor:
        # contexts are shorter than the sliding window, so layers of both types get the same mask
        masks = {"full_attention": mask_B1GS, "sliding_attention": mask_B1GS}
        found: Tensor = model.language_model(
            inputs_embeds=embeds_BGD,
            position_ids=positions_3BG[0],
            attention_mask=masks,
            past_key_values=cache,
            use_cache=False,
        ).last_hidden_state
        return found

    def scratch(self, size: ScratchSize, corpus: Sequence[str]) -> tuple[Any, Any, Any]:
        special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
        vocab, merges = train_bpe(corpus, special, space="▁")
        tokenizer = GemmaTokenizer(vocab=vocab, merges=merges, add_bos_token=False)
        tokenizer.add_tokens([IMAGE], special_tokens=True)
        config = PaliGemmaConfig(
            text_config=Gemma2Config(
                vocab_size=len(tokenizer),
                hidden_size=size.width,
                intermediate_size=4 * size.width,
                num_hidden_layers=size.num_layers,
                num_attention_heads=size.num_heads,
                num_key_value_heads=size.num_kv_heads,
                head_dim=size.head_dim,
                query_pre_attn_scalar=size.head_dim,
                max_position_embeddings=SCRATCH_POSITIONS,
                pad_token_id=0,
                eos_token_id=1,
                bos_token_id=2,
            ),
            vision_config=SiglipVisionConfig(
                hidden_size=size.vision_width,
                intermediate_size=4 * size.vision_width,
                num_hidden_layers=size.vision_layers,
                num_attention_heads=4,
                image_size=size.image_size,
                patch_size=size.patch_size,
                vision_use_head=False,
            ),
            image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
            projection_dim=size.width,
            hidden_size=size.width,
            vocab_size=len(tokenizer),
        )
        side = {"height": size.image_size, "width": size.image_size}
        slots = (size.image_size // size.patch_size) ** 2
        return config, tokenizer, SiglipImageProcessorPil(size=side, image_seq_length=slots)
