"""Vector quantization with a codebook of moving averages.

Written out rather than taken from `vector-quantize-pytorch`, because statistics and random choices
must not depend on how many processes train. A test compares the nearest codes with that package.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom

KMEANS_ROUNDS = 10


class VectorQuantizer(nn.Module):
    """Replaces latents by the nearest of `num_codes` vectors.

    The codebook starts as k-means of the first batch; then every code is the moving average of the
    latents that are nearest to it. A code that is hardly used any more moves to a latent of the
    current batch.

    Args:
        num_codes: Number of vectors in the codebook.
        width: Number of values in a latent.
        decay: Decay of the moving averages.
        commitment: Weight of the loss that keeps latents near their codes.
        revive_below: Moving count below which a code is dead and moves to a latent.
    """

    codebook: Tensor
    counts: Tensor
    sums: Tensor
    is_started: Tensor

    def __init__(
        self,
        num_codes: int,
        width: int,
        *,
        decay: float = 0.99,
        commitment: float = 0.25,
        revive_below: float = 2.0,
    ) -> None:
        super().__init__()
        self.num_codes = num_codes
        self.decay = decay
        self.commitment = commitment
        self.revive_below = revive_below
        self.register_buffer("codebook", torch.zeros(num_codes, width))
        self.register_buffer("counts", torch.zeros(num_codes))
        self.register_buffer("sums", torch.zeros(num_codes, width))
        self.register_buffer("is_started", torch.tensor(False))

    def forward(self, latents_BKD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Codes (B, K, D) with straight-through gradients, ids (B, K), and the commitment loss."""
        ids_BK = self.ids(latents_BKD)
        codes_BKD = self.codes(ids_BK)
        loss = self.commitment * F.mse_loss(latents_BKD, codes_BKD)
        return latents_BKD + (codes_BKD - latents_BKD).detach(), ids_BK, loss

    @torch.no_grad()
    def ids(self, latents_BKD: Tensor) -> Tensor:
        """Id of the nearest code of each latent, (..., D) -> (...)."""
        flat_ND = latents_BKD.reshape(-1, latents_BKD.shape[-1]).float()
        # |x - c|^2 without |x|^2, which is the same for every code; what is left are large numbers
        # that nearly cancel, and autocast would multiply in bfloat16
        with torch.autocast(flat_ND.device.type, enabled=False):
            codebook_VD = self.codebook.float()
            distance_NV = codebook_VD.square().sum(dim=1) - 2 * flat_ND @ codebook_VD.T
        return distance_NV.argmin(dim=1).view(latents_BKD.shape[:-1])

    def codes(self, ids_BK: Tensor) -> Tensor:
        """Codes of ids, (...) -> (..., D)."""
        return F.embedding(ids_BK, self.codebook)

    @torch.no_grad()
    def update(self, latents_BKD: Tensor, ids_BK: Tensor, random: SampleRandom) -> None:
        """Move the codebook toward the latents of one training step.

        Args:
            latents_BKD: Latents of all processes, in the order of the global batch.
            ids_BK: Ids of their nearest codes.
            random: Random numbers of the same samples, which choose the latents that codes move to.
        """
        flat_ND = latents_BKD.reshape(-1, latents_BKD.shape[-1]).float()
        # A random order of the latents, one key each, decides which of them become codes.
        order_N = random.uniform(latents_BKD.shape[1]).reshape(-1).argsort(stable=True)
        if not self.is_started:
            self._initialize(flat_ND, flat_ND[order_N])
            ids_BK = self.ids(latents_BKD)
        ids_N = ids_BK.reshape(-1)
        counts_V = torch.bincount(ids_N, minlength=self.num_codes).float()
        sums_VD = torch.zeros_like(self.sums).index_add_(0, ids_N, flat_ND)
        self.counts.lerp_(counts_V, 1 - self.decay)
        self.sums.lerp_(sums_VD, 1 - self.decay)
        self._revive(flat_ND[order_N])
        self.codebook.copy_(self.sums / self.counts[:, None])

    def _initialize(self, flat_ND: Tensor, shuffled_ND: Tensor) -> None:
        """Run k-means from randomly chosen latents, which repeat when there are too few."""
        repeats = -(-self.num_codes // len(shuffled_ND))
        self.codebook.copy_(shuffled_ND.repeat(repeats, 1)[: self.num_codes])
        for _ in range(KMEANS_ROUNDS):
            ids_N = self.ids(flat_ND)
            counts_V = torch.bincount(ids_N, minlength=self.num_codes).float()
            sums_VD = torch.zeros_like(self.sums).index_add_(0, ids_N, flat_ND)
            is_used_V = counts_V > 0
            self.codebook[is_used_V] = sums_VD[is_used_V] / counts_V[is_used_V, None]
        mean_count = len(flat_ND) / self.num_codes
        self.counts.fill_(max(mean_count, self.revive_below))
        self.sums.copy_(self.codebook * self.counts[:, None])
        self.is_started.fill_(True)

    def _revive(self, shuffled_ND: Tensor) -> None:
        (dead,) = torch.nonzero(self.counts < self.revive_below, as_tuple=True)
        chosen = shuffled_ND[torch.arange(len(dead), device=dead.device) % len(shuffled_ND)]
        self.counts[dead] = self.revive_below
        self.sums[dead] = chosen * self.revive_below
