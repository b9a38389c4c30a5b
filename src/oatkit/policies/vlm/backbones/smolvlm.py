"""SmolVLM: SigLIP and Llama, with a causal context; an image is one view, without tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import GPT2Tokenizer, SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from oatkit.policies.vlm.backbones.family import SCRATCH_POSITIONS, ImageFeatures, ScratchSize
from oatkit.policies.vlm.backbones.prompt import Part, Slots, chat_prompt
from oatkit.policies.vlm.backbones.prompt_text import text_ids, train_bpe

SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<fake_token_around_image>"),
    *("<global-img>", "<image>", "<end_of_utterance>"),
)


class SmolVLM:
    """The family; see `Family`."""

    name = "smolvlm"
    model_type = "smolvlm"
    is_context_causal = True
    first_position = 0
    attention = "sdpa"

    @property
    def model_class(self) -> Any:
        return SmolVLMForConditionalGeneration

    def language_model(self, model: Any) -> nn.Module:
        return model.text_model

    def vision_modules(self, model: Any) -> list[nn.Module]:
        return [model.vision_model, model.connector]

    def vision_layers(self, model: Any) -> Sequence[nn.Module]:
        return model.vision_model.encoder.layers

    def image_options(self) -> dict[str, Any]:
        # `do_resize` is the step before tiles are cut: it enlarges an image to 2048 pixels
        return {"do_image_splitting": False, "do_resize": False}

    def resized_images(self, processor: Any, found: Any) -> Tensor:
        images_N3HW: Tensor = found["pixel_values"].flatten(0, 1)
        return images_N3HW

    def num_image_slots(self, config: Any, pixel_shape: Sequence[int]) -> int:
        side = pixel_shape[-1] // config.vision_config.patch_size // config.scale_factor
        return side**2

    def image_grid(self, processor: Any, size: tuple[int, int]) -> tuple[int, int] | None:
        return None

    def parts(
        self, tokenizer: Any, image_slots: Sequence[tuple[int, Any]], num_states: int
    ) -> list[Part]:
        fake = "<fake_token_around_image>"
        return chat_prompt(
            lambda text: text_ids(tokenizer, text),
            image_slots,
            num_states,
            opening="<|im_start|>",
            user="User:",
            around_image=(f"{fake}<global-img>", fake),
            answer="<end_of_utterance>\nAssistant:",
        )

    def task_text(self, task: str, has_images: bool) -> str:
        return task if has_images else f"User: {task}"

    def encode_images(
        self, model: Any, images_N3HW: Tensor, grid: tuple[int, int] | None
    ) -> ImageFeatures:
        # not `get_image_features`, which drops images that are all zero
        found = model.vision_model(pixel_values=images_N3HW).last_hidden_state
        return ImageFeatures(model.connector(found))

    def run(
        self,
        model: Any,
        embeds_BGD: Tensor,
        positions_3BG: Tensor,
        mask_B1GS: Tensor,
        cache: Any,
        deepstack: tuple[Slots, tuple[Tensor, ...]] | None = None,
    ) -> Tensor:
        found: Tensor = model.text_model(
            inputs_embeds=embeds_BGD,
            position_ids=positions_3BG[0],
            attention_mask=mask_B1GS,
            past_key_values=cache,
            use_cache=False,
        ).last_hidden_state
        return found

    def scratch(self, size: ScratchSize, corpus: Sequence[str]) -> tuple[Any, Any, Any]:
        vocab, merges = train_bpe(corpus, SPECIAL)
        tokenizer = GPT2Tokenizer(vocab=vocab, merges=merges)
        tokenizer.add_tokens(list(SPECIAL), special_tokens=True)
        config = SmolVLMConfig(
            text_config={
                "model_type": "llama",
                "vocab_size": len(tokenizer),
                "hidden_size": size.width,
                "intermediate_size": 4 * size.width,
                "num_hidden_layers": size.num_layers,
                "num_attention_heads": size.num_heads,
                "num_key_value_heads": size.num_kv_heads,
                "head_dim": size.head_dim,
                "max_position_embeddings": SCRATCH_POSITIONS,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            vision_config={
                "hidden_size": size.vision_width,
                "intermediate_size": 4 * size.vision_width,
                "num_hidden_layers": size.vision_layers,
                "num_attention_heads": 4,
                "image_size": size.image_size,
                "patch_size": size.patch_size,
            },
            scale_factor=2,
            image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
            tie_word_embeddings=True,
        )
        side = {"longest_edge": size.image_size}
        return config, tokenizer, SmolVLMImageProcessorPil(size=side, max_image_size=side)
