"""The network of vision-language policies: a backbone with a token head, a flow expert, or both.

    images, instruction, state ── backbone ── keys and values ──┬── token head: logits
                                                                └── flow expert: velocity

Shape letters: B batch, K token slot, T step in the chunk, A action dimension, N image, R row: a
sample with one of its flow draws.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.captured_call import KEPT_SIZES, GraphPool
from oatkit.nn.decoder_backend import Generation
from oatkit.nn.flow import flow_matching_loss
from oatkit.nn.flow_acting import integrate_expert
from oatkit.nn.flow_expert import FlowExpert, Memory
from oatkit.nn.flow_graphs import FlowGraphs
from oatkit.nn.image_augmentation import augment_images
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.blockwise_loss import blockwise_loss, fit_to_schedule
from oatkit.policies.generation.packing import Packing
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import STATE_LIMIT, Observations
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.backbones.processor import MAX_TASK_TOKENS
from oatkit.policies.vlm.stage_graphs import StageGraphs
from oatkit.policies.vlm.token_head import TokenHead
from oatkit.policies.vlm.vlm_config import VlmConfig
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Schedule, Tokens


class VlmNet(nn.Module):
    """Predicts tokens, velocities, or both from observations; see the module's drawing.

    Args:
        config: Objective, which decides the heads, and their settings.
        backbone: Vision-language model, pretrained or not.
        spec: What the policy observes.
        tokenizer: Tokenizer whose tokens are predicted; it also has the shape of chunks.
    """

    prefers_bfloat16 = True
    """Where a CUDA device trains it and no precision is asked for, it computes in bfloat16."""

    def __init__(
        self,
        config: VlmConfig,
        backbone: Backbone,
        spec: ObservationSpec,
        tokenizer: ActionTokenizer,
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone = backbone
        self.chunk_shape, spec = spec.chunk_shape(tokenizer), spec.network
        sizes = [size for size in spec.cameras.values() for _ in range(spec.history)]
        self.parts = backbone.processor.parts(sizes, spec.history if spec.state_dim else 0)
        self._grids = [backbone.processor.grid(size) for size in sizes]
        self._crops = config.augmentation.smallest_shares(tuple(spec.cameras))
        num_fixed, num_tokens = sum(len(part) for part in self.parts), tokenizer.max_tokens
        if num_fixed + MAX_TASK_TOKENS + num_tokens > backbone.max_slots:
            raise ValueError(
                f"images and states take {num_fixed} slots, an instruction up to {MAX_TASK_TOKENS} "
                f"and tokens {num_tokens}, more than the {backbone.max_slots} of the backbone: use "
                "fewer cameras or frames"
            )
        self.state = nn.Linear(spec.state_dim, backbone.width) if spec.state_dim else None
        self.tokens = None
        if "tokens" in config.heads:
            self.tokens = TokenHead(
                backbone.text_embeddings(),
                vocab_size=tokenizer.vocab_size,
                has_end=not tokenizer.is_fixed_length,
                is_shifted=config.is_cotrained,
            )
        self.expert: FlowExpert | None = None
        self._layers: list[int] = []
        if "flow" in config.heads:
            self.expert, self._layers = _make_expert(config, backbone, self.chunk_shape[1])
        self._flow_graphs: FlowGraphs | None = None
        self._stage_graphs: StageGraphs | None = None
        if self.tokens is None:
            backbone.freeze_after_keys_and_values()
        if not spec.cameras:  # without a gradient, which DDP takes for an error
            backbone.freeze(vision=True, language=False)
        if config.expert_only:
            self.requires_grad_(False)
            self._expert.requires_grad_(True)
        backbone.set_types(getattr(torch, config.backbone.dtype))

    @property
    def blocks(self) -> list[nn.Module]:
        """Layers whose weights sharded training (FSDP) gathers one at a time.

        The last one of the language model is not among them: FSDP gathers a layer for its backward
        pass when the gradient of its output arrives, and nobody reads that output of a context,
        only its keys and values.
        """
        last = self.backbone.num_layers - 1
        layers = [layer for i, layer in enumerate(self.backbone.layers) if i != last]
        return [*layers, *([] if self.expert is None else self.expert.layers)]

    @property
    def device(self) -> torch.device:
        return self.backbone.mean.device

    @property
    def num_steps(self) -> int:
        """Number of Euler steps where no budget is named."""
        return self.config.expert.num_steps

    @property
    def masks_padding(self) -> bool:
        """Whether steps past the end of an episode are left out of the flow loss."""
        return self.config.mask_padding

    @property
    def mask_id(self) -> int:
        """Id of the mask, which follows all others."""
        return self._head.mask_id

    @property
    def end_id(self) -> int | None:
        """Id of the end symbol; None for a tokenizer whose sequences have a fixed length."""
        return self._head.end_id

    @property
    def _head(self) -> TokenHead:
        assert self.tokens is not None
        return self.tokens

    @property
    def _expert(self) -> FlowExpert:
        assert self.expert is not None
        return self.expert

    def use_graphs(self, num_sizes: int = KEPT_SIZES) -> None:
        """Act by captured calls, which a GPU replays without Python; see `GraphPool`."""
        pool = GraphPool(num_sizes)
        if self.expert is not None:
            self._flow_graphs = FlowGraphs(self.expert, pool)
        if self.tokens is not None:
            self._stage_graphs = StageGraphs(self.tokens, self.backbone, pool)

    def encode(self, observations: Observations) -> Context:
        """Contexts of a batch of observations, which the backbone runs once."""
        images = [
            pixels[:, frame] for pixels in observations.images for frame in range(pixels.shape[1])
        ]
        is_seen_BN = observations.is_seen.transpose(1, 2).flatten(1)
        state = observations.state
        projected = state.new_zeros(len(state), 0, self.backbone.width)
        if self.state is not None:
            # in float32, because bfloat16 cannot tell millimeters of a workspace apart
            with torch.autocast(state.device.type, enabled=False):
                bounded = state.clamp(-STATE_LIMIT, STATE_LIMIT)
                projected = F.linear(bounded, self.state.weight.float(), self.state.bias.float())
        return self.backbone.prefill(
            self.parts, observations.task, images, self._grids, is_seen_BN, projected
        )

    def augmented(self, observations: Observations, random: SampleRandom) -> Observations:
        """Observations with images cropped and colored at random, as the config says."""
        color_jitter = self.config.augmentation.color_jitter
        images = augment_images(observations.images, self._crops, color_jitter, random)
        return replace(observations, images=images)

    def shrink_images(self, observations: Observations) -> Observations:
        """The same: images are already as small as the network reads them."""
        return observations

    # Tokens

    def logits(self, ids_BK: Tensor, schedule: Schedule, context: Context) -> Tensor:
        """Logits (B, K, V) of the packed pass; slot k predicts token k."""
        return self._head.logits(self.backbone, ids_BK, schedule, context)

    def pack(self, schedule: Schedule, device: torch.device) -> Packing:
        """The stages of a schedule as the token head reads them."""
        return self._head.pack(schedule, device)

    def start(self, context: Context, batch_size: int, num_slots: int) -> Generation:
        """Start a generation; its cache holds the context alone."""
        del batch_size  # the context has it
        if self._stage_graphs is not None:
            return self._stage_graphs.start(context, num_slots)
        return self._head.start(self.backbone, context, num_slots)

    def select_rows(self, context: Context, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        return context.rows(rows_N)

    # Flow

    def memory(self, context: Context) -> Memory:
        """The part of a context that the expert reads."""
        pairs = context.detached_pairs() if self.config.is_cotrained else context.pairs
        rotary = self.backbone.rotary(context, self.chunk_shape[0])
        return Memory([pairs[layer] for layer in self._layers], context.is_seen, rotary)

    def flow_loss(
        self,
        context: Context,
        actions_BTA: Tensor,
        random: SampleRandom,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> Tensor:
        """Mean squared error of the velocity at random times.

        Args:
            context: Context of the batch.
            actions_BTA: Normalized actions.
            random: Random numbers of the samples.
            masked_BT: bool, steps whose error counts as zero, so that every other step has the same
                weight in any batch.
            weight_BA: Weight of each dimension of each chunk, 0 for padding; None for 1.
        """
        draws, memory = self.config.flow_draws, self.memory(context)
        rows = memory if draws == 1 else memory.repeat(draws)
        return flow_matching_loss(
            lambda noisy_RTA, time_R: self._expert(noisy_RTA, time_R, rows),
            actions_BTA,
            random,
            draws,
            masked_BT,
            weight_BA,
        )

    def flow(self, context: Context, noise_BTA: Tensor, num_steps: int | None = None) -> Tensor:
        """Normalized chunks (B, T, A), reached from noise; the context is not run again.

        Args:
            context: Context of the batch.
            noise_BTA: Where to start.
            num_steps: Number of Euler steps; that of the config by default.
        """
        memory, count = self.memory(context), num_steps or self.num_steps
        if self._flow_graphs is not None:
            return self._flow_graphs.integrate(noise_BTA, memory, count)
        return integrate_expert(self._expert, noise_BTA, memory, count)

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        schedule: Schedule,
        random: SampleRandom,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """Token loss plus `flow_weight` times the flow loss; actions are normalized."""
        is_expert_only = self.config.expert_only
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_expert_only):
            context = self.encode(self.augmented(observations, random))
        terms: list[Tensor] = []
        parts: dict[str, Tensor] = {}
        if self.tokens is not None and not is_expert_only:
            tokens, schedule = fit_to_schedule(tokens, schedule, self.end_id)
            logits_BKV = self.logits(tokens.ids, schedule, context)
            parts["token_loss"] = blockwise_loss(logits_BKV, tokens, schedule, self.end_id)
            terms.append(parts["token_loss"])
        if self.expert is not None:
            parts["flow_loss"] = self.flow_loss(context, actions_BTA, random, masked_BT, weight_BA)
            terms.append(self.config.flow_weight * parts["flow_loss"])
        return TrainingLoss(torch.stack(terms).sum(), parts)


def _make_expert(
    config: VlmConfig, backbone: Backbone, action_dim: int
) -> tuple[FlowExpert, list[int]]:
    """The expert, and the indices of the backbone's layers that it reads."""
    available = backbone.num_layers
    count = config.expert.num_layers or available
    if count > available:
        raise ValueError(f"the expert has {count} layers, the backbone only {available}")
    expert = FlowExpert(
        action_dim,
        width=config.expert.width,
        num_layers=count,
        num_heads=backbone.num_heads,
        num_kv_heads=backbone.num_kv_heads,
        head_dim=backbone.head_dim,
    )
    return expert, [(number + 1) * available // count - 1 for number in range(count)]
