"""Kinds of a comparison of tokenizers as units of work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.jobs.comparison_plan import ComparisonPlan
from oatkit.jobs.tokenizer_comparison import (
    RECORD,
    begin_comparison,
    compare_kind,
)
from oatkit.shards import ShardPlan
from oatkit.storage.records import record_from_json, record_to_json, write_record
from oatkit.tokenizers import KINDS
from oatkit.types import KindComparison, TokenizerComparison


class ComparisonWork:
    """The kinds of a comparison; see `oatkit.shards.Work`.

    Args:
        plan: What is compared; steps are counted, not minutes, which differ between machines.
        console: Where training tells of itself.
    """

    name = "tokenizer compare"

    def __init__(self, plan: ComparisonPlan, console: Console) -> None:
        if plan.minutes is not None:
            raise ValueError("--minutes is not for --shard: machines differ; give --steps")
        plan.check()
        self._plan = plan
        self._console = console
        self._held_out = plan.dataset.split(plan.split["held_out"], seed=plan.split["split_seed"])[
            1
        ]
        begun = begin_comparison(plan, self._held_out)
        self._begun = replace(begun, steps=plan.steps(begun.steps, console))
        self.settings: dict[str, Any] = plan.settings()
        self.facts: dict[str, Any] = {"begun": record_to_json(self._begun)}

    def units(self) -> Sequence[str]:
        return self._plan.kinds

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for kind in keys:
            self._console.rule(kind)
            found = compare_kind(
                self._begun, self._plan, kind, folder / kind, self._held_out, self._console
            )
            measurement = replace(
                found.measurement, path="", encode_chunks_per_s=0.0, decode_chunks_per_s=0.0
            )
            yield kind, record_to_json(replace(found, measurement=measurement, seconds=0.0))


def merge_comparison(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join kinds into the record of `oatkit tokenizer compare`."""
    begun = record_from_json(TokenizerComparison, plan.facts["begun"])
    kinds = [_at(record_from_json(KindComparison, value), folder) for value in results.values()]
    order = list(KINDS)
    kinds.sort(key=lambda kind: order.index(kind.measurement.kind))
    write_record(folder / RECORD, replace(begun, kinds=tuple(kinds)))
    return folder / RECORD


def _at(kind: KindComparison, folder: Path) -> KindComparison:
    """A kind whose measurement names its artifact, which lies in the folder of the shards."""
    path = str(folder / kind.measurement.kind)
    return replace(kind, measurement=replace(kind.measurement, path=path))
