"""The loss that a training step minimizes, and the named numbers that explain it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True)
class TrainingLoss:
    """A loss and its named parts, which are logged but not minimized.

    Attributes:
        total: The scalar that is minimized, the mean over the samples of a batch.
        parts: Tensor of each name, whose mean over all its values, steps and processes is logged.
            A part is a scalar, or has one value per sample; NaN marks a sample it says nothing of.
    """

    total: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)


def reconstruction_loss(
    rebuilt_BTA: Tensor,
    wanted_BTA: Tensor,
    weight_BA: Tensor | None = None,
    distance: str = "mse",
) -> Tensor:
    """Mean distance of chunks from those that were wanted, a scalar.

    Args:
        rebuilt_BTA: Chunks that were decoded.
        wanted_BTA: Chunks that were encoded.
        weight_BA: Weight of each dimension of each chunk, 0 for padding; None for 1.
        distance: "mse" for squared differences, else absolute ones.
    """
    measure = F.mse_loss if distance == "mse" else F.l1_loss
    if weight_BA is None:
        return measure(rebuilt_BTA, wanted_BTA)
    return (measure(rebuilt_BTA, wanted_BTA, reduction="none") * weight_BA[:, None]).mean()
