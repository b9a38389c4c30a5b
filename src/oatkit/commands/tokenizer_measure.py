"""`oatkit tokenizer measure`: rate, distortion and diagnostics of trained tokenizers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.dimension_errors import dimension_errors
from oatkit.commands.record_output import write_result
from oatkit.commands.text_output import print_differences, print_lines, table, titled
from oatkit.jobs.artifact_split import SplitName, select_episodes
from oatkit.measure.metric_table import METRICS, format_metric
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.tokenizers import load_tokenizer
from oatkit.types import TokenizerMeasurement

LEGEND = (
    "ratio: MSE over that of an ideal linear code of a Gaussian source at these bits; "
    "worst: largest absolute error of any action, raw units\n"
)


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
    split: SplitName = "val"
    """Which episodes; `val` are those each tokenizer held out."""
    device: DeviceFlag = "auto"
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write the measurements as JSON."""
    columns: Columns = DatasetOptions()


def run(options: MeasureTokenizer, console: Console) -> int:
    if not options.tokenizers:
        raise ValueError("name at least one tokenizer artifact")
    device = announce_device(console, options.device)
    found = []
    for path in options.tokenizers:
        tokenizer = load_tokenizer(path, device=device)
        dataset = options.columns.open_like(tokenizer, options.data, console)
        if tokenizer.action_dim != dataset.action_dim:
            raise ValueError(
                f"{path} is for {tokenizer.action_dim} action dimensions, {options.data} has "
                f"{dataset.action_dim}: name its columns with --action-key, or some of them with "
                "--action-dims"
            )
        print_differences(console, path, tokenizer.check(dataset))
        part = select_episodes(tokenizer.extras, dataset, options.split)
        found.append(measure_tokenizer(tokenizer, part, path=str(path), split=options.split))
        console.print(render_tokenizer(found[-1]), soft_wrap=True)
        mae = {str(b.budget): b.mae for b in found[-1].budgets if b.is_trained}
        console.print(dimension_errors(tokenizer.data, mae), soft_wrap=True)
    write_result(found, options.out, console)
    data, first = shlex.quote(options.data), shlex.quote(str(options.tokenizers[0]))
    flags = options.columns.flags()
    next_command = f"oatkit policy train --data {data} --tokenizer {first} --out out/policy{flags}"
    print_lines(console, f"next: {next_command}")
    return 0


def render_tokenizer(measured: TokenizerMeasurement) -> Text:
    """The trained budgets, then the diagnostics; the JSON has the budgets between as well."""
    text = titled(
        f"\n{measured.path}",
        f"{measured.kind}, {measured.num_parameters:,} parameters, vocabulary "
        f"{measured.vocab_size:,}, {measured.num_chunks:,} chunks",
    )
    shown = [name for name, metric in METRICS.items() if metric.is_in_terminal]
    rows = [(*(METRICS[name].heading for name in shown), "ratio", "worst")]
    for b in (b for b in measured.budgets if b.is_trained):
        ratio = b.mse / max(b.gaussian_mse, 1e-30)
        numbers = (format_metric(name, b) for name in shown)
        rows.append((*numbers, f"{ratio:.2f}", f"{max(b.worst):.2g}"))
    text.append_text(table(rows))
    text.append(LEGEND, style="dim")
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
