"""A vision-language model as a policy uses it: prefill a context once, then run suffixes after it.

    prompt parts ── embed ── prefill, the model's own attention ── Context: keys and values
    suffix slots ── run, with any mask and positions ───────────── hidden states

Shape letters: B batch, S context slot, G suffix slot, D width, H head, C head width, N image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from oatkit.policies.vlm.backbones.family import Family, ImageFeatures
from oatkit.policies.vlm.backbones.key_value_cache import GrowingCache, Pairs, RecordingCache
from oatkit.policies.vlm.backbones.onnx_mlps import use_onnx_mlps
from oatkit.policies.vlm.backbones.processor import Processor
from oatkit.policies.vlm.backbones.prompt import Part, lay_out

KEY_VALUE_MODULES = ("input_layernorm", "k_proj", "v_proj", "k_norm")
"""Names of the modules that compute keys and values in a layer, in every family."""


@dataclass(frozen=True, eq=False)
class Context:
    """A prefilled context.

    Attributes:
        pairs: Keys and values of every layer, (B, H, S, C); keys are rotated by their positions.
        is_seen: (B, S) bool, whether a slot takes part in attention.
        length: (B,) position of the first suffix slot.
        hidden: (B, S, D) hidden states of the last layer.
    """

    pairs: Pairs
    is_seen: Tensor
    length: Tensor
    hidden: Tensor

    def rows(self, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        pairs = [(keys[rows_N], values[rows_N]) for keys, values in self.pairs]
        return Context(pairs, self.is_seen[rows_N], self.length[rows_N], self.hidden[rows_N])

    def detached_pairs(self) -> Pairs:
        """Keys and values through which no gradient reaches the backbone."""
        return [(keys.detach(), values.detach()) for keys, values in self.pairs]


class Backbone(nn.Module):
    """A vision-language model of any family.

    Args:
        family: Family of the model.
        model: Model of `transformers`, without its head.
        processor: Tokenizer and image processor of the model.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, family: Family, model: nn.Module, processor: Processor) -> None:
        super().__init__()
        self.family = family
        self.model = model
        self.processor = processor
        self.text_config = cast(Any, model.config).get_text_config()
        mean, std = processor.image_statistics()
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)

    @property
    def width(self) -> int:
        """Width of the language model."""
        return int(self.text_config.hidden_size)

    @property
    def num_layers(self) -> int:
        """Number of layers of the language model."""
        return int(self.text_config.num_hidden_layers)

    @property
    def num_heads(self) -> int:
        return int(self.text_config.num_attention_heads)

    @property
    def num_kv_heads(self) -> int:
        return int(self.text_config.num_key_value_heads)

    @property
    def head_dim(self) -> int:
        found = getattr(self.text_config, "head_dim", None)
        return int(found or self.width // self.num_heads)

    @property
    def max_slots(self) -> int:
        """Maximum number of slots that a slot may see.

        All layers get the same mask, so the sliding window of some layers bounds it too.
        """
        most = int(self.text_config.max_position_embeddings)
        return min(most, getattr(self.text_config, "sliding_window", None) or most)

    @property
    def dtype(self) -> torch.dtype:
        """Type that the language model computes in: autocast's, or else that of its weights."""
        kind = self.mean.device.type
        if torch.is_autocast_enabled(kind):
            return torch.get_autocast_dtype(kind)
        return self._slot_dtype

    @property
    def _slot_dtype(self) -> torch.dtype:
        """Type of the vectors of slots, which autocast leaves as they are between layers."""
        return self._embedding.weight.dtype

    @property
    def embed_scale(self) -> float:
        """Factor by which the model multiplies embeddings; 1 except in Gemma."""
        return float(getattr(self._embedding, "scalar_embed_scale", 1.0))

    @property
    def _language_model(self) -> Any:
        return self.family.language_model(self.model)

    @property
    def _embedding(self) -> nn.Embedding:
        return cast(nn.Embedding, self._language_model.get_input_embeddings())

    @property
    def layers(self) -> list[nn.Module]:
        """Layers of the language model, then those of the vision tower."""
        return [*self._language_model.layers, *self.family.vision_layers(self.model)]

    def text_embeddings(self) -> Tensor:
        """Embeddings (N, D) of the tokens that the checkpoint has."""
        return self._embedding.weight.detach()[: self.processor.num_text_tokens]

    def prefill(
        self,
        parts: Sequence[Part],
        task_BL: Tensor,
        images: Sequence[Tensor],
        grids: Sequence[tuple[int, int] | None],
        is_seen_BN: Tensor,
        states_BSD: Tensor,
    ) -> Context:
        """Run the context of a batch.

        Args:
            parts: Parts of the prompt, in order.
            task_BL: Ids of the instructions; -1 is padding.
            images: Resized images (B, 3, H, W), uint8, one for each of the prompt.
            grids: Rows and columns of the slots of each image, or None.
            is_seen_BN: bool, whether an image is there.
            states_BSD: Vectors of the state slots.
        """
        slots = lay_out(parts, task_BL, is_seen_BN, self.family.first_position)
        encoded = self._encode_images(images, grids)
        levels = zip(*(image.deepstack for image in encoded), strict=True)
        deepstack = tuple(torch.cat(level, dim=1) for level in levels)
        is_allowed_BSS = slots.is_real[:, None, :].expand(-1, slots.is_real.shape[1], -1)
        if self.family.is_context_causal:
            is_allowed_BSS = is_allowed_BSS.tril()
        cache = RecordingCache()
        hidden_BSD = self.family.run(
            self.model,
            self._embed(parts, task_BL, encoded, states_BSD),
            slots.positions,
            self._additive_mask(is_allowed_BSS),
            cache,
            (slots, deepstack) if deepstack else None,
        )
        return Context(cache.pairs, slots.is_real, slots.length, hidden_BSD)

    def _embed(
        self,
        parts: Sequence[Part],
        task_BL: Tensor,
        images: Sequence[ImageFeatures],
        states_BSD: Tensor,
    ) -> Tensor:
        """Vectors (B, S, D) of the slots of a context."""
        features = iter(images)
        embedded = []
        for part in parts:
            if part.kind == "image":
                embedded.append(next(features).slots)
            elif part.kind == "state":
                embedded.append(states_BSD)
            elif part.kind == "task":
                embedded.append(self._embedding(task_BL.clamp(min=0)))
            else:
                ids_S = torch.tensor(part.ids, device=task_BL.device)
                embedded.append(self._embedding(ids_S).expand(len(task_BL), -1, -1))
        return torch.cat([part.to(self._slot_dtype) for part in embedded], dim=1)

    def run(
        self, embeds_BGD: Tensor, positions_G: Tensor, mask_GG: Tensor, context: Context
    ) -> Tensor:
        """Hidden states (B, G, D) of suffix slots; the context stays as it is.

        Args:
            embeds_BGD: Embeddings of the slots, not yet multiplied by `embed_scale`.
            positions_G: Positions of the slots, counted from the end of the context.
            mask_GG: bool, which slot (row) sees which (column); all see the context.
            context: Context of the same batch.
        """
        return self._run(embeds_BGD, positions_G, mask_GG, context, RecordingCache(context.pairs))

    def run_cached(
        self,
        embeds_BGD: Tensor,
        positions_G: Tensor,
        mask_GS: Tensor,
        context: Context,
        cache: GrowingCache,
    ) -> Tensor:
        """Hidden states (B, G, D) of suffix slots that also see the suffix slots in a cache.

        Args:
            embeds_BGD: Embeddings of the slots, not yet multiplied by `embed_scale`.
            positions_G: Positions of the slots, counted from the end of the context.
            mask_GS: bool, which slot (row) sees which (column) of the cached and new suffix slots.
            context: Context of the same batch.
            cache: Keys and values of the context and of the suffix slots before.
        """
        return self._run(embeds_BGD, positions_G, mask_GS, context, cache)

    def _run(
        self,
        embeds_BGD: Tensor,
        positions_G: Tensor,
        mask_GS: Tensor,
        context: Context,
        cache: RecordingCache | GrowingCache,
    ) -> Tensor:
        batch_size, num_slots = embeds_BGD.shape[:2]
        before_BGS = context.is_seen[:, None, :].expand(-1, num_slots, -1)
        is_allowed_BGS = torch.cat([before_BGS, mask_GS.expand(batch_size, -1, -1)], dim=2)
        positions_BG = context.length[:, None] + positions_G
        return self.family.run(
            self.model,
            (embeds_BGD * self.embed_scale).to(self._slot_dtype),
            positions_BG.expand(3, -1, -1),
            self._additive_mask(is_allowed_BGS),
            cache,
        )

    def rotary(self, context: Context, num_slots: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines (B, G, C) of the rotary positions that follow the context."""
        positions_BG = context.length[:, None] + torch.arange(
            num_slots, device=context.length.device
        )
        like = context.hidden.new_zeros((), dtype=torch.float32)
        cos, sin = self._language_model.rotary_emb(like, positions_BG)
        return cos, sin

    def _encode_images(
        self, images: Sequence[Tensor], grids: Sequence[tuple[int, int] | None]
    ) -> list[ImageFeatures]:
        """Features of each image of the prompt; those of one shape share a pass of the tower."""
        kinds = [(pixels.shape, grid) for pixels, grid in zip(images, grids, strict=True)]
        dtype = next(self.family.vision_modules(self.model)[0].parameters()).dtype
        found: dict[int, ImageFeatures] = {}
        for kind in dict.fromkeys(kinds):
            numbers = [number for number, other in enumerate(kinds) if other == kind]
            pixels_N3HW = torch.cat([images[number] for number in numbers])
            normal_N3HW = ((pixels_N3HW.float() - self.mean) / self.std).to(dtype)
            features = self.family.encode_images(self.model, normal_N3HW, kind[1])
            found |= dict(zip(numbers, features.split(len(numbers)), strict=True))
        return [found[number] for number in range(len(kinds))]

    def _additive_mask(self, is_allowed_BGS: Tensor) -> Tensor:
        """Mask (B, 1, G, S) that is added to the scores, as eager attention needs it."""
        mask = torch.zeros(is_allowed_BGS.shape, dtype=self.dtype, device=is_allowed_BGS.device)
        return mask.masked_fill(~is_allowed_BGS, torch.finfo(self.dtype).min)[:, None]

    def use_onnx_mlps(self) -> None:
        """Run the MLPs of generation on a CPU in ONNX Runtime, where that is installed."""
        use_onnx_mlps(self._language_model.layers, self.text_config)

    # Training

    def set_types(self, frozen: torch.dtype) -> None:
        """Give weights the types that they are trained in.

        Weights that are trained are float32: a step of 1e-4 is less than half of the distance from
        0.05 to the next number of bfloat16, so that it would be rounded away.

        Args:
            frozen: Type of the weights of a part, vision or language, of which at most adapters
                are trained.
        """
        for modules in (self.family.vision_modules(self.model), [self._language_model]):
            named = [pair for module in modules for pair in module.named_parameters()]
            own = [parameter for name, parameter in named if ".lora_" not in name]
            is_trained = any(parameter.requires_grad for parameter in own)
            for parameter in own:
                parameter.data = parameter.data.to(torch.float32 if is_trained else frozen)
            for name, parameter in named:
                if ".lora_" in name:
                    parameter.data = parameter.data.float()

    def freeze(self, *, vision: bool, language: bool) -> None:
        """Exclude the vision tower, the language model or both from training."""
        if vision:
            for module in self.family.vision_modules(self.model):
                module.requires_grad_(False)
        if language:
            self._language_model.requires_grad_(False)

    def freeze_after_keys_and_values(self) -> None:
        """Freeze what comes after the keys and values of the last layer.

        A policy that reads only keys and values never gives it a gradient, which is an error in
        training on several devices.
        """
        self._language_model.norm.requires_grad_(False)
        for name, parameter in self._language_model.layers[-1].named_parameters():
            if not any(part in name for part in KEY_VALUE_MODULES):
                parameter.requires_grad_(False)

    def checkpoint_activations(self) -> None:
        """Compute layers again in the backward pass instead of keeping their activations."""
        for layer in self.layers:
            layer.forward = _checkpointed(layer.forward)


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run
