"""What is found when a table of the paper is made again, as it is written to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oatkit.types.budget import Budget, budget_name

PrintedNumbers = Mapping[tuple[str, str], Mapping[str, float]]
"""Row and budget of a table of the paper to benchmark to number; budgets are words."""


@dataclass(frozen=True)
class ReproducedNumber:
    """A number of a table, the paper's beside ours."""

    row: str
    budget: Budget
    """Number of tokens, or None for all of them."""
    place: str
    """Benchmark or dataset: the column of the table."""
    value: float
    """Success in percent, or mean squared error x 1000 in raw units."""
    low: float | None
    """Lower end of the 95 % interval, where there is one."""
    high: float | None
    paper: float | None
    """Number in the paper; None where it has none, or measured something else."""
    steps: int
    """Number of training steps of the policy, or of the tokenizer where no policy acts."""
    temperature: float | None = None
    """Sampling temperature; None where nothing is sampled."""
    seed: int = 0
    """Seed of the policy's training and of its episodes, or of the tokenizer's training."""
    episodes: int | None = None
    """Number of episodes of each task; None where no policy acts."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What else decided it: `data` (the fingerprint of the demonstrations), and `backbone`,
    `state_key` and `env_option` where it has them. Numbers of before version 3 have none."""

    @property
    def verdict(self) -> str:
        """Whether the paper's number lies in our interval."""
        if self.paper is None or self.low is None or self.high is None:
            return ""
        return "agrees" if self.low <= self.paper <= self.high else "does not"

    def paper_words(self, beside: PrintedNumbers) -> str:
        """The paper's number; where it measured something else, those of its benchmarks by name.

        Args:
            beside: The numbers of the paper's table.
        """
        if self.paper is not None:
            return f"{self.paper:g}"
        others = beside.get((self.row, budget_name(self.budget)), {})
        return ", ".join(f"{benchmark} {value:g}" for benchmark, value in others.items())


@dataclass(frozen=True)
class Reproduction:
    """What `oatkit reproduce` finds about one table."""

    table: str
    settings: dict[str, Any]
    """Everything that decides the result, which must be the same when it goes on."""
    versions: dict[str, str]
    numbers: tuple[ReproducedNumber, ...] = ()
    schema: str = "oatkit/reproduction"
    version: int = 3


@dataclass(frozen=True)
class SummarizedRow:
    """What the columns of a table give together for a row; each counts the same."""

    row: str
    budget: Budget
    temperature: float | None
    average: float | None
    """Mean success in percent; None where columns are missing."""
    rank: float | None
    """Mean rank among the rows of the paper's table with the same backbone and temperature; None
    where columns are missing, and for rows that the paper's table does not have."""
    paper_average: float | None
    """Mean of the paper's numbers in the same columns."""
    paper_rank: float | None
    """Mean rank of the paper's numbers among the same rows and in the same columns."""
    printed_rank: float | None
    """Mean rank as the paper prints it, over its own rows and columns."""
    num_ranked: int = 0
    """Number of rows that the rank is among; 0 where it has none."""
    num_rows: int = 0
    """Number of rows that the paper's table has for the backbone."""

    @property
    def name(self) -> str:
        """The row and its budget."""
        if self.budget is None:
            return self.row
        return f"{self.row} at {budget_name(self.budget)}"


@dataclass(frozen=True)
class ReproductionSummary:
    """Averages and mean ranks of a table that was made again."""

    rows: tuple[SummarizedRow, ...] = ()
    columns: tuple[str, ...] = ()
    """Columns that averages and ranks are over."""
    printed_columns: tuple[str, ...] = ()
    """Columns that the printed ranks are over; none where none are printed."""
