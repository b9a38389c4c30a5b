"""`oatkit policy sweep`: the paper's ablations in closed loop."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.choices import SweptKindName, TokenizerPresetName
from oatkit.commands.dataset_options import ColumnOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.evaluation_choices import SimulatorName
from oatkit.commands.sampling_options import SamplingFlags
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines
from oatkit.jobs.policy_ablations import closed_loop_ablations, plan_policy_sweep, sweep_policy
from oatkit.jobs.policy_sweep_shards import PolicySweepWork
from oatkit.types import PolicyAblation, PolicySweep, Sampling


@dataclass(frozen=True)
class SweepPolicy:
    """Train and evaluate the paper's closed-loop ablations: horizon against tokens, FSQ levels.

    Example:
        oatkit policy sweep --data out/metaworld --state-key observation.environment_state
            --out out/policy-sweep.json
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Annotated[Path, arg(metavar="FILE.json")]
    """The record; what is trained goes into a folder beside it. The same command again goes on.
    With --shard, a folder."""
    only: PolicyAblation | None = None
    """Horizon x tokens (half of a chunk executed, or --execute steps), or FSQ levels; else all."""
    execute: int = 8
    """Number of steps that horizons-fixed executes."""
    kind: SweptKindName = "oat"
    """Which tokenizer."""
    preset: TokenizerPresetName = "small"
    """Size and training recipe of tokenizers and policies."""
    tokenizer_steps: int | None = None
    """Number of training steps of each tokenizer; the preset's by default."""
    steps: int | None = None
    """Number of training steps of each policy; by default those that the preset has for rows of a
    table, a quarter of the others' in `small`."""
    cameras: tuple[str, ...] = ()
    """Cameras that the policies read; none by default."""
    env: SimulatorName = "metaworld"
    """The simulator."""
    tasks: tuple[str, ...] = ()
    """Task names; by default those that the policy was trained on."""
    episodes: int = 50
    """Number of episodes of each task, on the same seeds."""
    sampling: SamplingFlags = Sampling(seed=0)
    workers: int | None = None
    """Number of simulator processes, by default one per core."""
    shard: ShardFlag = None
    device: DeviceFlag = "auto"
    columns: Annotated[ColumnOptions, arg(name="")] = ColumnOptions()


def run(options: SweepPolicy, console: Console) -> int:
    device = announce_device(console, options.device)
    changes: dict[str, Any] = {} if options.steps is None else {"steps": options.steps}
    how: dict[str, Any] = {
        "only": options.only,
        "execute": options.execute,
        "kind": options.kind,
        "preset": options.preset,
        "tokenizer_steps": options.tokenizer_steps,
        "cameras": options.cameras,
        "train": {"seed": options.sampling.seed or 0, **changes},
        "simulator": options.env,
        "tasks": options.tasks,
        "episodes": options.episodes,
        "sampling": options.sampling,
        "workers": options.workers,
        "device": device,
        "show_progress": not console.quiet,
    }
    dataset = options.columns.open(options.data, console)
    if options.shard is not None:
        work = PolicySweepWork(plan_policy_sweep(dataset, **how))
        return run_as_shard(work, options.shard, options.out, console)
    sweep = sweep_policy(dataset, options.out, **how)
    rows = closed_loop_ablations(options.only, options.execute)
    for ablation in dict.fromkeys(row.ablation for row in rows):
        console.print(render_policy_sweep(sweep, ablation), soft_wrap=True)
    folder, env = shlex.quote(str(options.out.with_suffix(""))), options.env
    print_lines(
        console,
        f"wrote {options.out}",
        f"next: oatkit policy eval {folder}/ONE/policy --env {env} --budgets 1 2 4 --out DIR",
    )
    return 0


def render_policy_sweep(sweep: PolicySweep, ablation: PolicyAblation) -> Text:
    """Success of each row with its Wilson interval."""
    text = Text(f"\n{ablation}: success, 95 % interval\n", overflow="fold")
    for row in sweep.rows:
        if row.ablation != ablation:
            continue
        label = f"{row.horizon} actions, {row.num_tokens} tokens, {row.execute} executed"
        if ablation == "levels":
            label = f"{','.join(map(str, row.levels))}: {row.vocab_size} codes"
        s = row.result.success
        score = "" if row.result.score is None else f"{row.result.score:>9.3f}"
        text.append(f"{label:<36}{s.rate:>8.1%}{s.low:>9.1%} - {s.high:.1%}{score}\n")
    return text
