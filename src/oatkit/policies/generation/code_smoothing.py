"""Targets that count near codes too: label smoothing by the distance of codes.

An action token is a point: of `oat` and `quest` on a small grid, of `bin` on a line. Points beside
the true one decode to nearly the same chunk, yet plain cross-entropy calls them as wrong as any
other, and a policy that sees few demonstrations learns by heart on which side of a rounding border
each of them fell. Here a target is a bell around the true point:

    id          ..  -2   -1   true   +1   +2 ..        along each dimension of the code
    plain       ..   0    0    1      0    0 ..
    width 1     .. .05  .24   .40    .24  .05 ..       the product over dimensions is the target

Shape letters: B batch, K slot, V id, C dimension of a code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CodeSmoothing(nn.Module):
    """True ids to the shares that every id has in their target.

    Args:
        positions_VC: Where the code of each id lies; neighbors are 1 apart.
        width: Standard deviation of the bell, in the same unit, above 0.
    """

    positions: Tensor

    def __init__(self, positions_VC: Tensor, width: float) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("positions", positions_VC.float(), persistent=False)

    def forward(self, ids_BK: Tensor) -> Tensor:
        """Shares (B, K, V), float32, which sum to 1 over the ids."""
        positions_VC = self.positions.float()
        # By products, squared distances of bins would be off by more than bells are narrow.
        distance_BKV = torch.cdist(
            positions_VC[ids_BK], positions_VC, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return torch.softmax(-(distance_BKV / self.width).square() / 2, dim=-1)
