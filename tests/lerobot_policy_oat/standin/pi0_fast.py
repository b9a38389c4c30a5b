"""Of `lerobot.policies.pi0_fast`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.lerobot_policy_oat.standin.policies import (
    NormalizationMode,
    PreTrainedConfig,
    PreTrainedPolicy,
)

WIDTH = 16


@dataclass
class PI0FastConfig(PreTrainedConfig):
    paligemma_variant: str = "gemma_2b"
    action_expert_variant: str = "gemma_300m"
    dtype: str = "float32"
    chunk_size: int = 50
    n_action_steps: int = 50
    max_state_dim: int = 32
    max_action_dim: int = 32
    max_action_tokens: int = 256
    rtc_config: Any | None = None
    image_resolution: tuple[int, int] = (224, 224)
    empty_cameras: int = 0
    tokenizer_max_length: int = 200
    text_tokenizer_name: str = "google/paligemma-3b-pt-224"
    action_tokenizer_name: str = "physical-intelligence/fast"
    temperature: float = 0.0
    max_decoding_steps: int = 256
    fast_skip_tokens: int = 128
    validate_action_token_prefix: bool = True
    use_kv_cache: bool = True
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.IDENTITY,
            "STATE": NormalizationMode.MEAN_STD,
            "ACTION": NormalizationMode.MEAN_STD,
        }
    )
    gradient_checkpointing: bool = False
    compile_model: bool = False
    compile_mode: str = "max-autotune"
    device: str | None = None
    optimizer_lr: float = 2.5e-5
    optimizer_betas: tuple[float, float] = (0.9, 0.95)
    optimizer_eps: float = 1e-8
    optimizer_weight_decay: float = 0.01
    optimizer_grad_clip_norm: float = 1.0
    scheduler_warmup_steps: int = 1_000
    scheduler_decay_steps: int = 30_000
    scheduler_decay_lr: float = 2.5e-6

    def validate_features(self) -> None: ...


class TinyPaliGemma(nn.Module):
    """One layer of attention with a cache, in the place of the vision-language model.

    Args:
        num_ids: Size of the text vocabulary.
        scale: Factor of the embeddings.
        width: Width of the slots.
    """

    def __init__(self, num_ids: int, scale: float, width: int = WIDTH) -> None:
        super().__init__()
        self.scale = scale
        self.paligemma = nn.Module()
        self.paligemma.lm_head = nn.Linear(width, num_ids, bias=False)
        self.embedding = nn.Embedding(num_ids, width)
        self.mix = nn.Linear(width, 3 * width)

    def embed_language_tokens(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) * self.scale

    def forward(
        self,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Any = None,
        use_cache: bool | None = None,
        adarms_cond: Any = None,
    ) -> Any:
        inputs_BLD = inputs_embeds[0]
        phase_BL1 = position_ids[..., None].float() / 7
        query, key, value = (self.mix(inputs_BLD) + torch.sin(phase_BL1)).chunk(3, dim=-1)
        if past_key_values is not None:
            key = torch.cat([past_key_values[0], key], dim=1)
            value = torch.cat([past_key_values[1], value], dim=1)
        mask = attention_mask[:, 0]
        hidden = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return [inputs_BLD + hidden, None], (key, value)


class PI0FastPytorch(nn.Module):
    scales_in_layer = False

    def __init__(
        self, config: PI0FastConfig, rtc_processor: Any = None, paligemma_tokenizer: Any = None
    ) -> None:
        super().__init__()
        scales = (WIDTH**0.5, 1.0) if self.scales_in_layer else (1.0, WIDTH**0.5)
        self.paligemma_with_expert = TinyPaliGemma(len(paligemma_tokenizer), scales[0])
        self.scale = scales[1]

    def embed_prefix_fast(
        self,
        images: Any,
        img_masks: Any,
        tokens: Tensor,
        masks: Tensor,
        fast_action_tokens: Any = None,
        fast_action_masks: Any = None,
    ) -> tuple[Any, ...]:
        embed = self.paligemma_with_expert.embed_language_tokens
        shown = [image.mean(dim=(1, 2, 3))[:, None, None].expand(-1, 1, WIDTH) for image in images]
        ids = torch.cat([tokens, fast_action_tokens], dim=1)
        inputs = torch.cat([*shown, embed(ids) * self.scale], dim=1)
        seen = [mask[:, None] for mask in img_masks]
        is_real = torch.cat([*seen, masks.bool(), fast_action_masks], dim=1)
        length, num_fast = is_real.shape[1], fast_action_tokens.shape[1]
        may_see = torch.ones(length, length, dtype=torch.bool).tril()
        may_see[: length - num_fast, : length - num_fast] = True
        allowed = may_see & is_real[:, None] & is_real[:, :, None]
        return inputs, is_real, allowed, len(images), num_fast

    def gradient_checkpointing_enable(self) -> None: ...


class PI0FastPolicy(PreTrainedPolicy):
    config_class = PI0FastConfig
    name = "pi0_fast"

    def init_rtc_processor(self) -> None:
        self.rtc_processor = None

    def reset(self) -> None:
        self._action_queue: deque[Tensor] = deque(maxlen=self.config.n_action_steps)

    def _preprocess_images(self, batch: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        images = [2 * batch[key] - 1 for key in self.config.image_features]
        return images, [torch.ones(len(image), dtype=torch.bool) for image in images]

    def _paligemma_tokens_to_act_tokens(self, tokens: Tensor) -> Tensor:
        return self._paligemma_tokenizer.vocab_size - 1 - self.config.fast_skip_tokens - tokens

    def _fix_pytorch_state_dict_keys(self, state_dict: Any, model_config: Any) -> Any:
        return state_dict

    def select_action(self, batch: dict[str, Tensor]) -> Tensor:
        if not self._action_queue:
            chunk = self.predict_action_chunk(batch)[:, : self.config.n_action_steps]
            self._action_queue.extend(chunk.unbind(1))
        return self._action_queue.popleft()


@dataclass
class Pi0FastPrepareStateAndLanguageTokenizerProcessorStep:
    max_state_dim: int = 32
    task_key: str = "task"
