"""`klt`: an ordered tokenizer computed from the data in about a minute, without gradient descent.

Every token looks up a vector in a table of its own, and decoding adds them up:

    chunk = mean + basis @ (scale 1 * vector of token 1 + scale 2 * vector of token 2 + ...)

The basis holds the principal directions of chunks (Karhunen-Loeve), a table the coordinates of its
vectors in a few directions within it. A scale is a number of the token times the gains of the ids
before it: an id says how large the rest is that it leaves, so that a chunk which is unlike most is
followed by larger steps. Every prefix and every sequence of ids decodes.

Encoding takes, token by token, the vector nearest to what the earlier ones left. On the way from
one budget to the next a few paths are kept, and the one that is best at the next budget wins:

    token      1   2   3   4   5   6   7   8   9 ...
    budget     1   2       4               8
    paths      1   1   3   1   3   3   3   1   3 ...   (`--paths`)

How tables are made is in `klt_fit.py`; artifacts of before are read by `klt_tables.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.weight_versions import weight_versions
from oatkit.tokenizers.codec import UNWRITTEN_DEFAULT, doubling, no_progress, not_fitted
from oatkit.tokenizers.klt_fit import MAX_CHUNKS, CellsName, TableFitter, fit_basis, thinned
from oatkit.tokenizers.klt_paths import NUM_GROUPS, NUM_PATHS, VectorTable, gain_of, search
from oatkit.tokenizers.klt_tables import SummedTables
from oatkit.types import Schedule, Tokens


@dataclass(frozen=True)
class KltConfig:
    """Tokens that look up vectors in tables, each for what the earlier tokens left."""

    horizon: int
    action_dim: int
    kind: Literal["klt"] = "klt"
    num_tokens: int = 16
    levels: tuple[int, ...] = (8, 8, 6, 5)
    """Numbers of cells, whose product is the vocabulary."""
    cells: CellsName = "auto"
    """How tables are made; every token chooses by default."""
    correct: bool = field(default=False, metadata=UNWRITTEN_DEFAULT)
    """Whether a small network corrects what the tables decode to; see `corrected.py`."""
    paths: int = field(default=NUM_PATHS, metadata=UNWRITTEN_DEFAULT)
    """Number of paths that encoding keeps between two budgets: more leave less and take longer."""

    def __post_init__(self) -> None:
        for name in ("horizon", "action_dim", "num_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if not self.levels or min(self.levels) < 2:
            raise ValueError(f"levels are {list(self.levels)}, expected one or more of at least 2")
        if not 1 <= self.paths <= NUM_GROUPS:
            raise ValueError(f"paths is {self.paths}, expected 1 to {NUM_GROUPS}")


class KeptTables(NamedTuple):
    """Tables made from buffers, which are held on to so that new ones lie elsewhere."""

    buffers: list[Tensor]
    versions: list[tuple[int, int]]
    tables: list[VectorTable]


class Klt(nn.Module):
    """The codec.

    Shape letters: B chunk, D number of a flattened chunk, P direction of the basis, K token, V
    vector of a table, C direction of a table.
    """

    is_ordered = True
    is_total = True
    is_fixed_length = True
    has_prefixes = True
    max_chunks = MAX_CHUNKS
    fitter: Callable[..., TableFitter] = TableFitter
    mean: Tensor
    basis: Tensor
    directions: Tensor
    rows: Tensor
    scales: Tensor
    gains: Tensor
    tables: Tensor

    def __init__(self, config: KltConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = math.prod(config.levels)
        self.max_tokens = config.num_tokens
        self.budgets = doubling(config.num_tokens)
        self.schedule = Schedule.tokenwise(config.num_tokens)
        self._kept: KeptTables | None = None
        self._make_buffers(0, 0)

    @property
    def summed_tables(self) -> SummedTables | None:
        """The tables of an artifact of before, which encodes and decodes as it did."""
        if "tables" not in self._buffers:
            return None
        return SummedTables(self._summed_sizes, self.tables)

    @property
    def _summed_sizes(self) -> tuple[int, ...]:
        """Number of rows of each table of a token in artifacts without a basis."""
        return self.config.levels if self.config.cells == "scalar" else (self.vocab_size,)

    def fit(
        self,
        chunks: Callable[[], Iterator[Tensor]],
        on_progress: Callable[[float], None] = no_progress,
    ) -> None:
        chunks_ND = thinned(chunks)
        basis = fit_basis(chunks_ND, self.max_tokens * math.log2(self.vocab_size))
        points_NP = (chunks_ND - basis.mean) @ basis.directions
        del chunks_ND
        fitter = self.fitter(self.config.cells, self.config.levels, self.budgets)
        tables = []
        for table in fitter.fit(points_NP, self.max_tokens):
            tables.append(table)
            on_progress(len(tables) / self.max_tokens)
        size = max(table.rows.shape[1] for table in tables)
        self._make_buffers(points_NP.shape[1], size)
        self.mean.copy_(basis.mean)
        self.basis.copy_(basis.directions)
        for token, table in enumerate(tables):
            missing = (0, size - table.rows.shape[1])
            self.directions[token] = F.pad(table.directions, missing)
            self.rows[token] = F.pad(table.rows, missing)
            self.scales[token], self.gains[token] = table.scale, table.gains

    def encode(self, actions_BTA: Tensor) -> Tokens:
        centered_BD = actions_BTA.flatten(1) - self.mean
        if self.summed_tables is not None:
            return self.summed_tables.encode(centered_BD)
        how = (self.vector_tables(), self.budgets, self.config.paths)
        return Tokens.full(search(centered_BD @ self.basis, *how))

    def decode(self, tokens: Tokens) -> Tensor:
        if self.summed_tables is not None:
            summed_BD = self.summed_tables.decode(tokens)
        else:
            summed_BD = self._coordinates(tokens) @ self.basis.T
        return (self.mean + summed_BD).view(-1, self.config.horizon, self.config.action_dim)

    def _coordinates(self, tokens: Tokens) -> Tensor:
        """Decoded chunks in the basis, (B, P)."""
        self._require_fitted()
        count = tokens.ids.shape[1]
        slot_K = torch.arange(count, device=tokens.ids.device)
        gains_BK = self.gains[slot_K, tokens.ids]
        scales_BK = self.scales[:count] * gain_of(gains_BK.cumsum(dim=1) - gains_BK)
        scales_BK = scales_BK * (slot_K < tokens.lengths[:, None])
        rows_BKC = self.rows[slot_K, tokens.ids] * scales_BK[..., None]
        return rows_BKC.flatten(1) @ self.directions[:count].transpose(1, 2).flatten(0, 1)

    def vector_tables(self) -> list[VectorTable]:
        """The tables as the search reads them, kept until buffers are replaced or written to."""
        self._require_fitted()
        buffers = [self.directions, self.rows, self.scales, self.gains]
        versions = weight_versions(buffers)
        if self._kept is None or self._kept.versions != versions:
            with torch.inference_mode(False), torch.no_grad():
                self._kept = KeptTables(buffers, versions, list(map(_table, *buffers)))
        return self._kept.tables

    def _require_fitted(self) -> None:
        if not self.basis.shape[1]:
            raise not_fitted("klt")

    def __getstate__(self) -> dict[str, Any]:
        """A copy makes its own tables."""
        return {**self.__dict__, "_kept": None}

    def _make_buffers(self, num_directions: int, table_directions: int) -> None:
        """Memory for what is fitted: zeros, which decode to zeros."""
        tokens, device = self.max_tokens, getattr(self, "mean", torch.zeros(0)).device
        size = self.config.horizon * self.config.action_dim
        self._buffers.clear()
        self._kept = None
        for name, shape in {
            "mean": (size,),
            "basis": (size, num_directions),
            "directions": (tokens, num_directions, table_directions),
            "rows": (tokens, self.vocab_size, table_directions),
            "scales": (tokens,),
            "gains": (tokens, self.vocab_size),
        }.items():
            dtype = torch.float16 if name == "rows" else torch.float32
            self.register_buffer(name, torch.zeros(shape, dtype=dtype, device=device))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the numbers of directions from what is loaded, because the data decided them."""
        if f"{prefix}tables" in state_dict:
            size, sizes = self.config.horizon * self.config.action_dim, self._summed_sizes
            self._buffers.clear()
            self._kept = None
            self.register_buffer("mean", torch.zeros(size))
            shape = (self.max_tokens * len(sizes), max(sizes), size)
            self.register_buffer("tables", torch.zeros(shape))
        elif f"{prefix}directions" in state_dict:
            self._make_buffers(*state_dict[f"{prefix}directions"].shape[1:])
        super()._load_from_state_dict(state_dict, prefix, *args)


def _table(directions_PC: Tensor, rows_VC: Tensor, scale: Tensor, gains_V: Tensor) -> VectorTable:
    count = int(directions_PC.any(dim=0).sum())  # the others make up for longer tables
    return VectorTable(directions_PC[:, :count].contiguous(), rows_VC[:, :count], scale, gains_V)
