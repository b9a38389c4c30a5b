"""What generation needs of a network that predicts tokens."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from oatkit.nn.decoder_backend import Generation
from oatkit.policies.generation.packing import Packing
from oatkit.policies.observation.observations import Observations
from oatkit.types import Schedule


class TokenNet(Protocol):
    """A network that gives logits of tokens; what `encode` gives is called the context."""

    @property
    def device(self) -> torch.device: ...

    @property
    def mask_id(self) -> int:
        """The input that stands for MASK."""

    @property
    def end_id(self) -> int | None:
        """The id that ends a sequence; None where all have the same length."""

    def encode(self, observations: Observations) -> Any:
        """What is computed once per observation."""

    def select_rows(self, context: Any, rows_N: Tensor) -> Any:
        """The context of some rows of the batch."""

    def pack(self, schedule: Schedule, device: torch.device) -> Packing:
        """The stages of a schedule as the network reads them."""

    def logits(self, ids_BK: Tensor, schedule: Schedule, context: Any) -> Tensor:
        """Logits (B, K, V) of a packed pass over true tokens; slot k predicts token k."""

    def start(self, context: Any, batch_size: int, num_slots: int) -> Generation:
        """Generation with an empty cache, which has room for `num_slots` slots."""
