"""`oatkit tokenizer sweep`: the paper's ablations of oat."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.choices import SweptKindName, TokenizerPresetName
from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines, table_row
from oatkit.jobs.tokenizer_ablations import TokenizerSweepPlan, sweep_tokenizer, tokenizer_ablations
from oatkit.jobs.tokenizer_sweep_shards import TokenizerSweepWork
from oatkit.tokenizers.codec import doubling
from oatkit.types import Ablation, TokenizerSweep


@dataclass(frozen=True)
class SweepTokenizer:
    """Train the paper's ablations: FSQ levels, horizon against tokens, nested dropout.

    Example:
        oatkit tokenizer sweep --data out/metaworld --out out/sweep.json
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Annotated[Path, arg(metavar="FILE.json")]
    """The record; tokenizers go into a folder beside it. The same command again goes on. With
    --shard, a folder."""
    only: Ablation | None = None
    """One of the three; all by default."""
    kind: SweptKindName = "oat-pow2"
    """Which tokenizer."""
    preset: TokenizerPresetName = "small"
    """Size and training recipe."""
    steps: int | None = None
    """Number of training steps of each row; the preset's by default."""
    held_out: float = 0.1
    """Share of the episodes that is never trained on, and measured."""
    split_seed: int = 0
    """Seed of which episodes those are."""
    seed: int = 0
    """Seed of the initial weights, the samples and everything random in training."""
    shard: ShardFlag = None
    device: DeviceFlag = "auto"
    columns: Columns = DatasetOptions()


def run(options: SweepTokenizer, console: Console) -> int:
    device = announce_device(console, options.device)
    changes: dict[str, Any] = {} if options.steps is None else {"steps": options.steps}
    how: dict[str, Any] = {
        "only": options.only,
        "kind": options.kind,
        "preset": options.preset,
        "train": {"seed": options.seed, **changes},
        "held_out": options.held_out,
        "split_seed": options.split_seed,
        "device": device,
        "show_progress": not console.quiet,
    }
    dataset = options.columns.open(options.data, console)
    if options.shard is not None:
        work = TokenizerSweepWork(TokenizerSweepPlan(dataset, **how))
        return run_as_shard(work, options.shard, options.out, console)
    sweep = sweep_tokenizer(dataset, options.out, **how)
    for ablation in dict.fromkeys(row.ablation for row in tokenizer_ablations(options.only)):
        console.print(render_tokenizer_sweep(sweep, ablation), soft_wrap=True)
    data, kind = shlex.quote(options.data), options.kind
    flags = options.columns.flags()
    next_command = f"oatkit tokenizer train --data {data} --kind {kind} --out out/{kind}{flags}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0


def render_tokenizer_sweep(sweep: TokenizerSweep, ablation: Ablation) -> Text:
    """A row a line: raw error at doubling budgets; for all tokens its ratio to the Gaussian's."""
    rows = [row for row in sweep.rows if row.ablation == ablation]
    budgets = sorted({b for row in rows for b in doubling(row.num_tokens)})
    text = Text(
        f"\n{ablation}: MSE at budgets, and its ratio to the Gaussian reference\n", overflow="fold"
    )
    heads = (*map(str, budgets), "ratio")
    text.append(f"{'':<23}" + table_row(*heads, widths=(9,)), style="dim")
    for row in rows:
        mse = {b.budget: b.mse for b in row.budgets if b.budget in doubling(row.num_tokens)}
        end = row.budgets[-1]
        label = {
            "levels": f"{','.join(map(str, row.levels))}: {row.vocab_size} codes",
            "horizons": f"{row.horizon} actions, {row.num_tokens} tokens",
            "nesting": "nested dropout" if row.nested_dropout else "no nested dropout",
        }[ablation]
        numbers = [f"{mse[b]:.2e}" if b in mse else "" for b in budgets]
        numbers.append(f"{end.mse / max(end.gaussian_mse, 1e-30):.2f}")
        text.append(f"{label:<23}" + table_row(*numbers, widths=(9,)))
    return text
