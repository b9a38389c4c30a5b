"""`light-flow`: the light network with a flow head in place of tokens.

state, images of each camera (history frames each), task
    ── embed ── context transformer ── keys and values, once per observation ──┐
noisy actions, flow time ── self-attention, cross-attention, MLP, x layers ────┴── velocity
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oatkit.nn.flow import flow_matching_loss
from oatkit.nn.flow_head import FlowHead, Pairs
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.light.light_config import LightFlowConfig
from oatkit.policies.light.observation_encoder import (
    encode_observations,
    observation_parts,
    shrink_images,
)
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations


class LightFlowNet(nn.Module):
    """Observations and noise to chunks; see the module's drawing.

    Args:
        config: Sizes and settings.
        spec: What is observed.
        chunk_shape: Number of steps of a chunk, and of action dimensions.
    """

    def __init__(
        self, config: LightFlowConfig, spec: ObservationSpec, chunk_shape: tuple[int, int]
    ) -> None:
        super().__init__()
        self.config = config
        self.chunk_shape = chunk_shape
        sizes = config.sizes
        parts = observation_parts(sizes, spec)
        self.cameras, self.state, self.task, self.slots, self.context = parts
        self.head = FlowHead(
            *chunk_shape,
            width=sizes.width,
            num_layers=sizes.num_layers,
            num_heads=sizes.num_heads,
            dropout=sizes.dropout,
        )

    @property
    def device(self) -> torch.device:
        return self.slots.device

    @property
    def num_steps(self) -> int:
        """Number of Euler steps where no budget is named."""
        return self.config.num_steps

    @property
    def masks_padding(self) -> bool:
        """Whether steps past the end of an episode are left out of the loss."""
        return self.config.mask_padding

    @property
    def blocks(self) -> list[nn.Module]:
        """Parts whose weights sharded training (FSDP) gathers one at a time; the others, which are
        small, stay gathered during a step."""
        return [*self.context.mlp]

    def encode(self, observations: Observations, random: SampleRandom | None = None) -> Pairs:
        """Keys and values of every layer; with `random` images are cropped anywhere."""
        context_BSD = encode_observations(self, self.config.sizes, observations, random)
        pairs: Pairs = self.head.keys_values(context_BSD)
        return pairs

    def select_rows(self, context: Pairs, rows_N: Tensor) -> Pairs:
        """The context of some rows of the batch."""
        return [(keys[rows_N], values[rows_N]) for keys, values in context]

    def shrink_images(self, observations: Observations) -> Observations:
        """The same with images as small as the network reads them, to keep many in memory."""
        return shrink_images(self.config.sizes, observations)

    def flow(self, context: Pairs, noise_BTA: Tensor, num_steps: int) -> Tensor:
        """Normalized chunks (B, T, A), reached from noise in so many Euler steps."""
        return self.head.integrate(noise_BTA, context, num_steps)

    def flow_loss(
        self,
        context: Pairs,
        actions_BTA: Tensor,
        random: SampleRandom,
        masked_BT: Tensor | None = None,
        dropout: SampleRandom | None = None,
        weight_BA: Tensor | None = None,
    ) -> Tensor:
        """Mean squared error of the velocity at random times.

        Args:
            context: Context of the batch.
            actions_BTA: Normalized actions.
            random: Random numbers of the samples.
            masked_BT: bool, steps whose error counts as zero.
            dropout: Random numbers of dropout; None drops nothing.
            weight_BA: Weight of each dimension of each chunk, 0 for padding; None for 1.
        """
        head = self.head
        return flow_matching_loss(
            lambda noisy_RTA, time_R: head(noisy_RTA, head.encode_time(time_R), context, dropout),
            actions_BTA,
            random,
            self.config.flow_draws,
            masked_BT,
            weight_BA,
        )

    def loss(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        random: SampleRandom,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of normalized actions."""
        context = self.encode(observations, random)
        flow_loss = self.flow_loss(context, actions_BTA, random, masked_BT, random, weight_BA)
        return TrainingLoss(flow_loss, {"flow_loss": flow_loss})
