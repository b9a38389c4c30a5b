"""What the columns of a table that was made again give together: averages and mean ranks.

    summarize_table(record).rows[0].rank

Ranks are the paper's: among the rows of its table only, and within a backbone and a temperature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from oatkit.evaluation.benchmark_statistics import average_ranks
from oatkit.jobs.paper_tables import PaperTable, paper_table
from oatkit.types import (
    Budget,
    ReproducedNumber,
    Reproduction,
    ReproductionSummary,
    SummarizedRow,
    budget_name,
)


@dataclass(frozen=True)
class Key:
    """What makes numbers of several columns and seeds one row."""

    row: str
    budget: Budget
    temperature: float | None


def summarize_table(record: Reproduction) -> ReproductionSummary:
    """Averages and mean ranks of a record's rows, and of the same rows in the paper.

    A row is the mean over its seeds; temperatures are rows of their own. The summary is empty where
    there are no successes of several columns.
    """
    acting = [number for number in record.numbers if number.low is not None]
    columns = tuple(dict.fromkeys(number.place for number in acting))
    if len(columns) < 2:
        return ReproductionSummary()
    table = paper_table(record.table)
    ours, papers = _means(acting), _papers(acting)
    whole = {key: means for key, means in ours.items() if len(means) == len(columns)}
    printed = {key: means for key, means in papers.items() if len(means) == len(columns)}
    groups = _groups(list(whole), table)
    ranks, paper_ranks = _ranks(groups, whole), _ranks(groups, printed)
    sizes = {key: len(group) for group in groups for key in group}
    rows = tuple(
        SummarizedRow(
            *(key.row, key.budget, key.temperature),
            average=fmean(whole[key].values()) if key in whole else None,
            rank=ranks.get(key),
            paper_average=fmean(printed[key].values()) if key in printed else None,
            paper_rank=paper_ranks.get(key),
            printed_rank=table.ranks.get((key.row, budget_name(key.budget)), {}).get("rank"),
            num_ranked=sizes.get(key, 0),
            num_rows=_num_rows(key, table),
        )
        for key in ours
    )
    return ReproductionSummary(rows, columns, table.ranked_columns)


def _key(number: ReproducedNumber) -> Key:
    return Key(number.row, number.budget, number.temperature)


def _means(numbers: Sequence[ReproducedNumber]) -> dict[Key, dict[str, float]]:
    """Means over seeds, column by column."""
    seeds: dict[Key, dict[str, list[float]]] = {}
    for number in numbers:
        seeds.setdefault(_key(number), {}).setdefault(number.place, []).append(number.value)
    return {
        key: {place: fmean(values) for place, values in places.items()}
        for key, places in seeds.items()
    }


def _papers(numbers: Sequence[ReproducedNumber]) -> dict[Key, dict[str, float]]:
    """The paper's numbers, column by column."""
    found: dict[Key, dict[str, float]] = {}
    for number in numbers:
        if number.paper is not None:
            found.setdefault(_key(number), {})[number.place] = number.paper
    return found


def _groups(keys: Sequence[Key], table: PaperTable) -> list[list[Key]]:
    """The rows that are ranked together."""
    groups: dict[tuple[str | None, float | None], list[Key]] = {}
    for key in keys:
        if table.has_number(key.row, key.budget):
            family = table.rows[key.row].family
            groups.setdefault((family, key.temperature), []).append(key)
    return list(groups.values())


def _ranks(
    groups: Sequence[Sequence[Key]], means: Mapping[Key, Mapping[str, float]]
) -> dict[Key, float]:
    """Mean ranks in the groups that have all means."""
    ranked = [group for group in groups if all(key in means for key in group)]
    return {
        key: rank
        for group in ranked
        for key, rank in zip(group, average_ranks([means[key] for key in group]), strict=True)
    }


def _num_rows(key: Key, table: PaperTable) -> int:
    """Number of rows that the paper's table has for the backbone of a row."""
    family = table.all_rows[key.row].family
    return sum(table.rows[row].family == family for row, _ in table.numbers)
