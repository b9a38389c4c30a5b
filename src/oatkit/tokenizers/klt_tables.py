"""What artifacts of `klt` held before there was a basis: tables of whole chunks.

    chunk = mean + vector of token 1 + vector of token 2 + ...

With scalar cells a token has one table for each of its levels, and its id is the mixed radix number
of their rows.

Shape letters: B chunk, D number of a flattened chunk, R table (token by token), V row.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.types import Tokens


class SummedTables:
    """The codec of such tables.

    Args:
        sizes: Number of rows of each table of a token.
        tables: Rows, (R, V, D).
    """

    def __init__(self, sizes: tuple[int, ...], tables: Tensor) -> None:
        self._quantizer = FiniteScalarQuantizer(sizes).to(tables.device)
        self._num_tokens = len(tables) // len(sizes)
        self._sizes = sizes * self._num_tokens
        self._tables = tables

    def encode(self, residual_BD: Tensor) -> Tokens:
        """The nearest row of one table after the other."""
        found = []
        for table_VD, size in zip(self._tables, self._sizes, strict=True):
            lengths_V = table_VD[:size].square().sum(dim=1)
            distances_BV = torch.addmm(lengths_V, residual_BD, table_VD[:size].T, alpha=-2)
            found.append(distances_BV.argmin(dim=1))
            residual_BD = residual_BD - table_VD[found[-1]]
        rows_BKC = torch.stack(found, dim=1).view(len(residual_BD), self._num_tokens, -1)
        return Tokens.full(self._quantizer.join(rows_BKC))

    def decode(self, tokens: Tokens) -> Tensor:
        """The sum of the rows, (B, D)."""
        ids_BK = F.pad(tokens.ids, (0, int(tokens.ids.shape[1] == 0)))  # a bag holds something
        slot_K = torch.arange(ids_BK.shape[1], device=ids_BK.device)
        rows_BR = self._quantizer.digits(ids_BK).flatten(1)
        first_R = self._tables.shape[1] * torch.arange(rows_BR.shape[1], device=ids_BK.device)
        is_kept_BK = slot_K < tokens.lengths[:, None]
        per_token = rows_BR.shape[1] // ids_BK.shape[1]
        return F.embedding_bag(
            rows_BR + first_R,
            self._tables.flatten(0, 1),
            per_sample_weights=is_kept_BK.to(self._tables).repeat_interleave(per_token, dim=1),
            mode="sum",
        )

    def joined(self) -> Tensor:
        """The vector of each id of each token, (K, V, D)."""
        ids_V = torch.arange(self._quantizer.num_codes, device=self._tables.device)
        digits_VC = self._quantizer.digits(ids_V)
        tables_KCVD = self._tables.view(self._num_tokens, -1, *self._tables.shape[1:])
        parts = [tables_KCVD[:, c, digits_V] for c, digits_V in enumerate(digits_VC.unbind(-1))]
        return torch.stack(parts).sum(dim=0)
