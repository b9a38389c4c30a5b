"""`oatkit tokenizer compare`: every kind on one dataset, and a report."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.choices import CORRECTION, KindName, TokenizerPresetName, kind_help
from oatkit.commands.command_line import command_line
from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines, table, table_row
from oatkit.jobs.comparison_plan import ComparisonPlan
from oatkit.jobs.comparison_shards import ComparisonWork
from oatkit.jobs.tokenizer_comparison import compare
from oatkit.measure.reports.comparison_findings import cautions, sentences, trained
from oatkit.measure.reports.probe_findings import (
    probe_baselines,
    probed_budgets,
    recommended,
)
from oatkit.measure.reports.representation_findings import (
    HEADINGS,
    representation_rows,
    representation_sentences,
)
from oatkit.nn.device import Device
from oatkit.tokenizers import KINDS
from oatkit.types import TokenizerComparison


@dataclass(frozen=True)
class CompareTokenizers:
    """Train or fit every kind of tokenizer on a dataset, measure all alike, and write a report.

    Example:
        oatkit tokenizer compare --data out/metaworld --out out/compared
        oatkit tokenizer compare --data out/metaworld --out out/compared --policy-minutes 3
        oatkit tokenizer compare --data out/metaworld --out out/compared --kinds klt fast \
            --representations absolute delta relative
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Path
    """Folder for report, JSON and an artifact of each kind; the same command again goes on."""
    kinds: tuple[KindName, ...] = tuple(KINDS)
    """Which tokenizers; a later run may add some."""
    preset: TokenizerPresetName = "small"
    """Size and training recipe of the learned kinds."""
    steps: int | None = None
    """Number of training steps of each learned kind; the preset's by default."""
    minutes: float | None = None
    """Time of the slowest trained kind instead: all are trained for the steps that it has time for
    in a short trial; a fitted kind gets as many chunks as it holds. Measuring comes on top."""
    policy_minutes: float | None = None
    """Also train a small policy from the state on the tokens of each kind, for so long at most and
    all for the same steps, and recommend a kind and a budget by its error."""
    representations: tuple[str, ...] = ()
    """Also measure klt and fast with actions in these representations, such as `absolute delta
    relative` (one word or quoted words each): which costs fewest tokens."""
    horizon: int = 32
    """Number of actions in a chunk."""
    num_tokens: Annotated[
        int, arg(help=kind_help("num_tokens", "Number of tokens of a chunk, learned ones"))
    ] = 16
    levels: Annotated[tuple[int, ...], arg(help=kind_help("levels", "FSQ levels"))] = (8, 8, 6, 5)
    correct: Annotated[
        bool,
        arg(help=kind_help("correct", CORRECTION, "off"), help_behavior_hint=""),
    ] = False
    published: Annotated[Path | None, arg(metavar="DIR")] = None
    """The universal tokenizer as FAST's authors publish it, compared in place of one that is
    fitted (fast)."""
    batch_size: int | None = None
    """Number of chunks in a step; the preset's by default."""
    learning_rate: float | None = None
    """Learning rate; the preset's by default."""
    held_out: float = 0.1
    """Share of the episodes that is never trained on, and measured."""
    split_seed: int = 0
    """Seed of which episodes those are."""
    seed: int = 0
    """Seed of the initial weights, the samples and everything random in training."""
    shard: ShardFlag = None
    device: DeviceFlag = "auto"
    columns: Columns = DatasetOptions()


def run(options: CompareTokenizers, console: Console) -> int:
    if options.steps is not None and options.minutes is not None:
        raise ValueError("give --steps or --minutes, not both")
    if options.published is not None and "fast" not in options.kinds:
        raise ValueError("--published is for fast, which is not among the kinds: leave it out")
    device = announce_device(console, options.device)
    changes = {name: getattr(options, name) for name in ("steps", "batch_size", "learning_rate")}
    if options.shard is not None:
        return run_as_shard(
            comparison_work(options, device, console), options.shard, options.out, console
        )
    dataset = options.columns.open(options.data, console)
    comparison = compare(
        dataset,
        options.kinds,
        options.out,
        preset=options.preset,
        horizon=options.horizon,
        num_tokens=options.num_tokens,
        levels=options.levels,
        correct=options.correct,
        published=options.published,
        minutes=options.minutes,
        policy_minutes=options.policy_minutes,
        representations=options.representations,
        train={"seed": options.seed, **{k: v for k, v in changes.items() if v is not None}},
        held_out=options.held_out,
        split_seed=options.split_seed,
        device=device,
        command=command_line("tokenizer compare", options),
        show_progress=not console.quiet,
    )
    console.print(render_comparison(comparison), soft_wrap=True)
    next_command = _next_command(options, comparison, has_state=dataset.state is not None)
    print_lines(console, f"open {options.out / 'report.html'}", f"next: {next_command}")
    return 0


def _next_command(
    options: CompareTokenizers, comparison: TokenizerComparison, *, has_state: bool
) -> str:
    """A policy on the kind that is best for one, or how to find out which that is."""
    best = recommended(comparison)
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    flags = options.columns.flags()
    if options.policy_minutes is not None and best is None:
        minutes, where = 4 * options.policy_minutes, options.out / "longer"
        longer = replace(options, policy_minutes=minutes, out=where)
        return command_line("tokenizer compare", longer)
    if best is not None:
        tokenizer = f"{out}/{best.kind}"
        return f"oatkit policy train --data {data} --tokenizer {tokenizer} --out out/policy{flags}"
    if has_state:
        return command_line("tokenizer compare", replace(options, policy_minutes=3.0))
    return f"oatkit tokenizer sweep --data {data} --out {out}/sweep.json{flags}"


def comparison_work(options: CompareTokenizers, device: Device, console: Console) -> ComparisonWork:
    """The kinds to compare, as work for shards."""
    if options.policy_minutes is not None:
        raise ValueError("--policy-minutes is not for --shard: machines differ; leave it out")
    changes = {name: getattr(options, name) for name in ("steps", "batch_size", "learning_rate")}
    sizes = {name: getattr(options, name) for name in ("horizon", "num_tokens", "levels")}
    plan = ComparisonPlan(
        options.columns.open(options.data, console),
        options.kinds,
        options.preset,
        sizes | ({"correct": True} if options.correct else {}),
        {"held_out": options.held_out, "split_seed": options.split_seed},
        options.minutes,
        {"seed": options.seed, **{k: v for k, v in changes.items() if v is not None}},
        device,
        published=options.published,
    )
    return ComparisonWork(plan, console)


def render_comparison(comparison: TokenizerComparison) -> Text:
    """A trained budget a line: its rate, its error and what share of the variance that is."""
    text = Text(overflow="fold")
    headings = ("tokens", "bits", "entropy", "MSE", "Gaussian", "variance", "seconds")
    text.append(f"{'kind':<10}" + table_row(*headings), style="dim")
    for kind in comparison.kinds:
        for number, b in enumerate(trained(kind)):
            numbers = (
                *(f"{b.tokens:.3g}", f"{b.bits:.0f}", f"{b.entropy_bits:.0f}"),
                *(f"{b.mse:.2e}", f"{b.gaussian_mse:.2e}"),
                *(f"{b.mse / max(comparison.variance, 1e-30):.2%}",),
                *(f"{kind.seconds:,.0f}" if number == 0 else "",),
            )
            name = kind.measurement.kind if number == 0 else ""
            text.append(f"{name:<10}" + table_row(*numbers))
    if comparison.representations:
        _append_representations(text, comparison)
    if any(kind.policy for kind in comparison.kinds):
        _append_policies(text, comparison)
    text.append(f"{sentences(comparison)[0]}\n", style="bold")
    for caution in cautions(comparison):
        text.append(f"note: {caution}\n", style="yellow")
    return text


def _append_representations(text: Text, comparison: TokenizerComparison) -> None:
    """A line for each kind in each representation, then which needs fewest tokens."""
    text.append_text(table([HEADINGS, *representation_rows(comparison)]))
    for sentence in representation_sentences(comparison):
        text.append(f"{sentence}\n", style="bold")


def _append_policies(text: Text, comparison: TokenizerComparison) -> None:
    """What a policy made of each kind, and below it what needs no network."""
    variance = max(comparison.variance, 1e-30)
    text.append(
        f"{'policy on':<10}" + table_row("tokens", "MSE", "true ids", "variance", "overlap"),
        style="dim",
    )
    for row in probed_budgets(comparison):
        numbers = (
            *(f"{row.found.tokens:.3g}", f"{row.mse:.2e}", f"{row.found.tokenizer_mse:.2e}"),
            *(f"{row.mse / variance:.2%}", "-" if row.overlap is None else f"{row.overlap:.0%}"),
        )
        text.append(f"{row.kind:<10}" + table_row(*numbers))
    for b in probe_baselines(comparison):
        share = f"{b.mse / variance:.2%}"
        text.append(f"{b.name:<10}" + table_row("-", f"{b.mse:.2e}", "-", share, "-"))
