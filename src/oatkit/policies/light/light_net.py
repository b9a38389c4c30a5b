"""`light`: a small transformer over token slots that reads encoded observations.

    state, images of each camera (history frames each), task
        ── embed ── context transformer ── keys and values, once per observation ──┐
    token slots (block-wise) ── self-attention, cross-attention, MLP, x layers ────┴── logits

About 5 million parameters by default, image encoders apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from oatkit.nn.decoder_backend import DecoderBackend, Generation
from oatkit.nn.image_encoder import ImageEncoder, resize, resize_and_crop
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.training_loss import TrainingLoss
from oatkit.nn.transformer import Transformer
from oatkit.policies.generation.blockwise_loss import blockwise_loss, fit_to_schedule
from oatkit.policies.generation.packing import pack
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types import Schedule, Tokens

Context = list[tuple[Tensor, Tensor]]
"""Keys and values of every layer."""
SMALLEST_CROP = 33


@dataclass(frozen=True)
class LightConfig:
    """The network and the schedule it is trained under."""

    kind: ClassVar[str] = "light"
    width: int = 256
    num_layers: int = 4
    num_heads: int = 4
    context_layers: int = 1
    """Layers in which the parts of an observation read each other."""
    dropout: float = 0.1
    image_size: int = 96
    """Height and width to which images are resized."""
    crop_size: int = 84
    """Height and width of the part that is read: a random one in training, the middle otherwise."""
    image_channels: int = 64
    """Number of channels of the first stage of the image encoders."""
    num_points: int = 32
    """Number of feature maps per image whose mean position (spatial softmax) is read."""
    endpoints: tuple[int, ...] | None = None
    """The schedule; the tokenizer's own by default."""

    def __post_init__(self) -> None:
        for name in ("width", "num_layers", "num_heads", "image_channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.width % self.num_heads:
            raise ValueError(f"width {self.width} is not divisible by {self.num_heads} heads")
        if self.crop_size < SMALLEST_CROP:
            raise ValueError(
                f"crop_size is {self.crop_size}, expected at least {SMALLEST_CROP}: the encoder "
                "halves it five times, and one pixel has no position"
            )
        if self.crop_size > self.image_size:
            raise ValueError(f"crop_size {self.crop_size} exceeds image_size {self.image_size}")


class LightNet(nn.Module):
    """Observations and tokens to logits; see the module's drawing.

    Args:
        config: Sizes.
        spec: What is observed.
        vocab_size: Number of ids of the tokenizer; the end symbol, if any, and the mask follow.
        num_tokens: Number of token slots.
        has_end: Whether rows end with a symbol.
    """

    def __init__(
        self,
        config: LightConfig,
        spec: ObservationSpec,
        *,
        vocab_size: int,
        num_tokens: int,
        has_end: bool,
    ) -> None:
        super().__init__()
        self.config = config
        width, num_heads = config.width, config.num_heads
        self.end_id = vocab_size if has_end else None
        num_outputs = vocab_size + has_end
        self.mask_id = num_outputs
        self.cameras = nn.ModuleList(
            ImageEncoder(width, num_channels=config.image_channels, num_points=config.num_points)
            for _ in spec.cameras
        )
        self.state = nn.Linear(spec.state_dim, width) if spec.state_dim else None
        self.task = nn.Embedding(max(1, len(spec.tasks)), width)
        num_slots = 1 + spec.history * (len(spec.cameras) + (spec.state_dim > 0))
        self.slots = nn.Parameter(0.02 * torch.randn(num_slots, width))
        is_seen = torch.ones(num_slots, num_slots, dtype=torch.bool)
        self.context = Transformer(
            width, config.context_layers, num_heads, is_seen, dropout=config.dropout
        )
        self.decoder = TokenDecoder(
            num_outputs + 1,
            num_outputs,
            num_tokens,
            width=width,
            num_layers=config.num_layers,
            num_heads=num_heads,
            dropout=config.dropout,
        )
        self._backend = DecoderBackend(self.decoder)

    @property
    def device(self) -> torch.device:
        return self.slots.device

    def encode(self, observations: Observations, random: SampleRandom | None = None) -> Context:
        """Keys and values of every layer; with `random` images are cropped anywhere."""
        parts_BSD = [self.task(observations.task)[:, None]]
        if self.state is not None:
            parts_BSD.append(self.state(observations.state).to(self.slots.dtype))
        sizes = (self.config.image_size, self.config.crop_size)
        for encoder, images in zip(self.cameras, observations.images, strict=True):
            cropped = resize_and_crop(images, *sizes, random)
            encoded_ND = encoder(cropped.flatten(0, 1).to(self.slots.dtype))
            parts_BSD.append(encoded_ND.view(*images.shape[:2], -1))
        context_BSD = self.context(torch.cat(parts_BSD, dim=1) + self.slots, random)
        pairs: Context = self.decoder.keys_values(context_BSD)
        return pairs

    def select_rows(self, context: Context, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        return [(keys[rows_N], values[rows_N]) for keys, values in context]

    def start(self, context: Context, batch_size: int, num_slots: int) -> Generation:
        """Generation with an empty cache, which has room for `num_slots` slots."""
        return self._backend.start(context, batch_size, num_slots)

    def shrink_images(self, observations: Observations) -> Observations:
        """The same with images as small as the network reads them, to keep many in memory."""
        images = tuple(
            (255 * resize(image, self.config.image_size)).round().to(torch.uint8)
            for image in observations.images
        )
        return replace(observations, images=images)

    pack = staticmethod(pack)

    def logits(
        self,
        ids_BK: Tensor,
        schedule: Schedule,
        context: Context,
        random: SampleRandom | None = None,
    ) -> Tensor:
        """The packed pass: (B, K, V), slot k predicts token k."""
        packing = pack(schedule, ids_BK.device)
        inputs_BK = packing.inputs(ids_BK, self.mask_id)
        logits_BKV: Tensor = self.decoder(
            inputs_BK, packing.positions, packing.mask, context, random
        )
        return logits_BKV

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        schedule: Schedule,
        random: SampleRandom | None = None,
    ) -> TrainingLoss:
        """The training loss of tokens."""
        tokens, schedule = fit_to_schedule(tokens, schedule, self.end_id)
        logits_BKV = self.logits(tokens.ids, schedule, self.encode(observations, random), random)
        token_loss = blockwise_loss(logits_BKV, tokens, schedule, self.end_id)
        return TrainingLoss(token_loss, {"token_loss": token_loss})
