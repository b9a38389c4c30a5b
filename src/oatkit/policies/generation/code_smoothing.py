"""Targets that count near codes too: label smoothing by the distance of codes.

An action token is a point: of `oat` and `quest` on a small grid, of `bin` on a line. Points beside
the true one decode to nearly the same chunk, yet plain cross-entropy calls them as wrong as any
other, and a policy that sees few demonstrations learns by heart on which side of a rounding border
each of them fell. Here a target is a bell around the true point:

    id          ..  -2   -1   true   +1   +2 ..        along each dimension of the code
    plain       ..   0    0    1      0    0 ..
    width 1     .. .05  .24   .40    .24  .05 ..       the product over dimensions is the target

Shape letters: B batch, K slot, V id, C dimension of a code, N any shape of positions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LARGEST_TABLE = 4096
"""Number of ids up to which the targets of all of them are kept, 64 MB at most."""


class CodeSmoothing(nn.Module):
    """True ids to the shares that every id has in their target, and to the target's entropy.

    The targets of all ids are computed when the first are asked for: a policy that only acts has
    none.

    Args:
        positions_VC: Where the code of each id lies; neighbors are 1 apart.
        width: Standard deviation of the bell, in the same unit, above 0.
    """

    positions: Tensor

    def __init__(self, positions_VC: Tensor, width: float) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("positions", positions_VC.float(), persistent=False)
        self._table: tuple[Tensor, Tensor] | None = None

    def forward(self, ids_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Shares (B, K, V), which sum to 1 over the ids, and their entropies (B, K) in nats, both
        float32."""
        if len(self.positions) > LARGEST_TABLE:
            return self._targets(self.positions[ids_BK])
        if self._table is None or self._table[0].device != ids_BK.device:
            self._table = self._targets(self.positions)
        shares_VV, entropies_V = self._table
        return shares_VV[ids_BK], entropies_V[ids_BK]

    @torch.inference_mode(mode=False)  # kept for training too, whoever asks first
    def _targets(self, true_NC: Tensor) -> tuple[Tensor, Tensor]:
        """Shares and entropies of the targets around some positions."""
        # By products, squared distances of bins would be off by more than bells are narrow.
        distance_NV = torch.cdist(
            true_NC.float(), self.positions.float(), compute_mode="donot_use_mm_for_euclid_dist"
        )
        shares_NV = torch.softmax(-(distance_NV / self.width).square() / 2, dim=-1)
        return shares_NV, torch.special.entr(shares_NV).sum(dim=-1)
