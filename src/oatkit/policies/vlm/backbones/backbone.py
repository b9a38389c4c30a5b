"""A vision-language model as a policy uses it: prefill a context once, then run suffixes on it.

    prompt parts ── embed ── prefill, the backbone's own attention ── Context: keys and values
    suffix slots ── run, with any mask and positions ─────────────── hidden states

Shape letters: B batch, S context slot, G suffix slot, D width, H head, C head width, N image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from oatkit.policies.vlm.backbones.family import Family, Seen
from oatkit.policies.vlm.backbones.key_value_cache import Growing, Noted, Pairs
from oatkit.policies.vlm.backbones.onnx_mlps import speed_up
from oatkit.policies.vlm.backbones.processor import Processor
from oatkit.policies.vlm.backbones.prompt import Part, lay_out

READ_OF_A_LAYER = ("input_layernorm", "k_proj", "v_proj", "k_norm")
"""What keys and values of a layer are made with, in every family."""


@dataclass(frozen=True, eq=False)
class Context:
    """A prefilled context.

    Attributes:
        pairs: Keys and values of every layer, (B, H, S, C), keys with their positions in them.
        is_seen: (B, S) bool, which slots count.
        length: (B,) the position of the first suffix slot.
        hidden: (B, S, D) what the last layer gives.
    """

    pairs: Pairs
    is_seen: Tensor
    length: Tensor
    hidden: Tensor

    def rows(self, rows_N: Tensor) -> Context:
        """The contexts of some rows of the batch."""
        pairs = [(keys[rows_N], values[rows_N]) for keys, values in self.pairs]
        return Context(pairs, self.is_seen[rows_N], self.length[rows_N], self.hidden[rows_N])

    def detached_pairs(self) -> Pairs:
        """The pairs, with no way for a gradient back into the backbone."""
        return [(keys.detach(), values.detach()) for keys, values in self.pairs]


class Backbone(nn.Module):
    """A model of any family.

    Args:
        family: Which.
        model: Of `transformers`, without its head.
        processor: Of its text and images.
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
        return int(self.text_config.hidden_size)

    @property
    def num_layers(self) -> int:
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
        """That a slot may see; all layers see the same, so a sliding window bounds them too."""
        most = int(self.text_config.max_position_embeddings)
        return min(most, getattr(self.text_config, "sliding_window", None) or most)

    @property
    def dtype(self) -> torch.dtype:
        return self._table.weight.dtype

    @property
    def embed_scale(self) -> float:
        """What the model multiplies embeddings with; Gemma's alone is not 1."""
        return float(getattr(self._table, "scalar_embed_scale", 1.0))

    @property
    def _language(self) -> Any:
        return self.family.language_model(self.model)

    @property
    def _table(self) -> nn.Embedding:
        return cast(nn.Embedding, self._language.get_input_embeddings())

    @property
    def layers(self) -> list[nn.Module]:
        """Of the language model, then of the vision tower."""
        return [*self._language.layers, *self.family.vision_layers(self.model)]

    def known_rows(self) -> Tensor:
        """(tokens, D): the embeddings of the tokens that the checkpoint knows."""
        return self._table.weight.detach()[: self.processor.num_known]

    def prefill(
        self,
        parts: Sequence[Part],
        task_BL: Tensor,
        images: Sequence[Tensor],
        grids: Sequence[tuple[int, int] | None],
        is_seen_BN: Tensor,
        states_BSD: Tensor,
    ) -> Context:
        """Run a context.

        Args:
            parts: Of the prompt.
            task_BL: Ids of the instructions, -1 where there is none.
            images: For each image of the prompt processed pixels (B, ...), uint8.
            grids: For each image rows and columns of its slots, or None.
            is_seen_BN: bool, which images are there.
            states_BSD: Vectors for the state slots.
        """
        slots = lay_out(parts, task_BL, is_seen_BN, self.family.first_position)
        seen = [self._see(pixels, grid) for pixels, grid in zip(images, grids, strict=True)]
        features = iter(seen)
        embedded = []
        for part in parts:
            if part.kind == "image":
                embedded.append(next(features).features)
            elif part.kind == "state":
                embedded.append(states_BSD.to(self.dtype))
            elif part.kind == "task":
                embedded.append(self._table(task_BL.clamp(min=0)))
            else:
                ids_S = torch.tensor(part.ids, device=task_BL.device)
                embedded.append(self._table(ids_S).expand(len(task_BL), -1, -1))
        deeper = tuple(
            torch.cat(level, dim=1) for level in zip(*(s.deeper for s in seen), strict=True)
        )
        is_allowed_BSS = slots.is_real[:, None, :].expand(-1, slots.is_real.shape[1], -1)
        if self.family.is_context_causal:
            is_allowed_BSS = is_allowed_BSS.tril()
        cache = Noted()
        hidden_BSD = self.family.run(
            self.model,
            torch.cat(embedded, dim=1),
            slots.positions,
            self._additive(is_allowed_BSS),
            cache,
            (slots, deeper) if deeper else None,
        )
        return Context(cache.pairs, slots.is_real, slots.length, hidden_BSD)

    def run(
        self, embeds_BGD: Tensor, positions_G: Tensor, mask_GG: Tensor, context: Context
    ) -> Tensor:
        """Hidden states (B, G, D) of suffix slots; the context does not notice.

        Args:
            embeds_BGD: What the slots hold, without the embedding scale.
            positions_G: After the context.
            mask_GG: bool, which slot (row) sees which (column); all see the context.
            context: Of the same batch.
        """
        return self._run(embeds_BGD, positions_G, mask_GG, context, Noted(context.pairs))

    def run_growing(
        self,
        embeds_BGD: Tensor,
        positions_G: Tensor,
        mask_GS: Tensor,
        context: Context,
        cache: Growing,
    ) -> Tensor:
        """The same with what `cache` keeps between context and slots; (G, S) covers both."""
        return self._run(embeds_BGD, positions_G, mask_GS, context, cache)

    def _run(
        self,
        embeds_BGD: Tensor,
        positions_G: Tensor,
        mask_GS: Tensor,
        context: Context,
        cache: Noted | Growing,
    ) -> Tensor:
        batch_size, num_slots = embeds_BGD.shape[:2]
        before_BGS = context.is_seen[:, None, :].expand(-1, num_slots, -1)
        is_allowed_BGS = torch.cat([before_BGS, mask_GS.expand(batch_size, -1, -1)], dim=2)
        positions_BG = context.length[:, None] + positions_G
        return self.family.run(
            self.model,
            (embeds_BGD * self.embed_scale).to(self.dtype),
            positions_BG.expand(3, -1, -1),
            self._additive(is_allowed_BGS),
            cache,
        )

    def rotary(self, context: Context, num_slots: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines, (B, G, C), of slots that follow the context."""
        positions_BG = context.length[:, None] + torch.arange(
            num_slots, device=context.length.device
        )
        like = context.hidden.new_zeros((), dtype=torch.float32)
        cos, sin = self._language.rotary_emb(like, positions_BG)
        return cos, sin

    def _see(self, pixels_N: Tensor, grid: tuple[int, int] | None) -> Seen:
        shape = pixels_N.shape[: self.family.color_axis]
        by_color = pixels_N.float().reshape(*shape, 3, -1)
        normal = ((by_color - self.mean) / self.std).view_as(pixels_N)
        return self.family.see(self.model, normal.to(self.dtype), grid)

    def _additive(self, is_allowed_BGS: Tensor) -> Tensor:
        """(B, 1, G, S): 0 where a slot is seen; a bool mask would be wrong in eager attention."""
        mask = torch.zeros(is_allowed_BGS.shape, dtype=self.dtype, device=is_allowed_BGS.device)
        return mask.masked_fill(~is_allowed_BGS, torch.finfo(self.dtype).min)[:, None]

    def speed_up(self) -> None:
        """Make ready for generation, where there is a faster way on a CPU."""
        speed_up(self._language.layers, self.text_config)

    # Training

    def freeze(self, *, vision: bool, language: bool) -> None:
        """Let parts stay as they are."""
        if vision:
            for module in self.family.vision_modules(self.model):
                module.requires_grad_(False)
        if language:
            self._language.requires_grad_(False)

    def freeze_unread(self) -> None:
        """Freeze what follows the last keys and values, where nothing else is read of the model.

        It would never get a gradient, which training on several devices does not forgive.
        """
        self._language.norm.requires_grad_(False)
        for name, parameter in self._language.layers[-1].named_parameters():
            if not any(part in name for part in READ_OF_A_LAYER):
                parameter.requires_grad_(False)

    def save_memory(self) -> None:
        """Compute the layers again in the backward pass instead of keeping what they gave."""
        for layer in self.layers:
            layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run
