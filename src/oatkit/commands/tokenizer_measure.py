"""`oatkit tokenizer measure`: rate, distortion and diagnostics of trained tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.data import Dataset
from oatkit.measure import measure_tokenizer
from oatkit.measure.metric_table import METRICS, format_metric
from oatkit.storage.records import write_records
from oatkit.tokenizers import load_tokenizer
from oatkit.types import TokenizerMeasurement


@dataclass(frozen=True)
class MeasureTokenizer:
    """Measure tokenizers on episodes they were not trained on.

    Example:
        oatkit tokenizer measure out/oat-pow2 --data out/metaworld --out out/measured.json
    """

    tokenizers: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Artifacts, one or several."""
    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    split: Literal["val", "train", "all"] = "val"
    """Which episodes; `val` are those each tokenizer held out."""
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write the measurements as JSON."""
    columns: Columns = DatasetOptions()


def run(options: MeasureTokenizer, console: Console) -> int:
    if not options.tokenizers:
        raise ValueError("name at least one tokenizer artifact")
    dataset = options.columns.open(options.data)
    found = []
    for path in options.tokenizers:
        tokenizer = load_tokenizer(path)
        for difference in tokenizer.check(dataset):
            console.print(f"note: {path}: {difference}", markup=False, soft_wrap=True)
        part = select(tokenizer.extras, dataset, options.split)
        found.append(measure_tokenizer(tokenizer, part, path=str(path), split=options.split))
        console.print(draw(found[-1]))
    if options.out is not None:
        write_measurements(found, options.out, console)
    return 0


def write_measurements(found: Sequence[Any], out: Path, console: Console) -> None:
    """Save records as one JSON list, and say so."""
    write_records(out, found)
    console.print(f"wrote {out}", markup=False, soft_wrap=True)


def select(extras: dict[str, Any], dataset: Dataset, split: str) -> Dataset:
    """The episodes that an artifact was trained on, by its extras, or those it was not."""
    if split == "all":
        return dataset
    made = extras.get("split")
    if made is None:
        raise ValueError("this artifact does not say how its data were split: use --split all")
    train, held_out = dataset.split(made["held_out"], seed=made["seed"])
    return train if split == "train" else held_out


def draw(measured: TokenizerMeasurement) -> Text:
    """The trained budgets; the JSON has those between as well."""
    text = Text(overflow="fold")
    text.append(f"\n{measured.path}", style="bold")
    text.append(
        f"  {measured.kind}, {measured.num_parameters:,} parameters, vocabulary "
        f"{measured.vocab_size:,}, {measured.num_chunks:,} chunks\n",
        style="dim",
    )
    shown = [name for name, metric in METRICS.items() if metric.is_in_terminal]
    rows = [(*(METRICS[name].heading for name in shown), "ratio", "worst")]
    for b in (b for b in measured.budgets if b.is_trained):
        ratio = b.mse / max(b.gaussian_mse, 1e-30)
        numbers = (format_metric(name, b) for name in shown)
        rows.append((*numbers, f"{ratio:.2f}", f"{max(b.worst):.2g}"))
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        line = "".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        text.append(f"{line}\n", style="" if number else "dim")
    r, used = measured.robustness, [slot.usage for slot in measured.slots]
    text.append(
        f"random ids: {r.random_finite:.1%} finite, {r.random_undecodable:.1%} undecodable\n"
        f"one wrong token: {r.corrupted_undecodable:.1%} undecodable\n"
        f"vocabulary used: {min(used):.0%} to {max(used):.0%} in a slot\n"
        f"chunks/s: {measured.encode_chunks_per_s:,.0f} encoded, "
        f"{measured.decode_chunks_per_s:,.0f} decoded",
        style="dim",
    )
    return text
