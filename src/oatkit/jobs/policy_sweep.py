"""`oatkit policy sweep`: the paper's closed-loop ablations, one JSON, resumable.

out.json                                      the record; grows row by row
out/levels8555-horizon32-tokens8/tokenizer    what was trained, shared by the ablations
out/levels8555-horizon32-tokens8/policy
out/levels8555-horizon32-tokens8/execute16    episodes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.jobs.policy_evaluation import evaluate
from oatkit.jobs.policy_training import TrainPolicy, train_policy
from oatkit.jobs.tokenizer_sweep import HORIZONS, LEVELS, NUM_TOKENS
from oatkit.jobs.tokenizer_training import (
    TrainTokenizer,
    train_tokenizer,
)
from oatkit.policies import load_policy
from oatkit.storage.artifact import require_free
from oatkit.storage.records import read_or_begin, write_record
from oatkit.train import read_log, training_seconds
from oatkit.types import PolicyAblation, PolicySweep, PolicySweepRow, Sampling

LIGHT_LEVELS = (8, 5, 5, 5)


@dataclass(frozen=True)
class SweepPolicy:
    """Train and evaluate the paper's closed-loop ablations: horizon against tokens, FSQ levels.

    Example:
        oatkit policy sweep --data out/metaworld --out out/policy-sweep.json
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Annotated[Path, arg(metavar="FILE.json")]
    """The record; what is trained goes into a folder beside it. The same command again goes on."""
    only: PolicyAblation | None = None
    """Horizon x tokens (half of a chunk executed, or --execute steps), or FSQ levels; else all."""
    execute: int = 8
    """Steps that horizons-fixed executes."""
    kind: Literal["oat", "oat-pow2"] = "oat"
    """Which tokenizer."""
    preset: Literal["tiny", "small", "paper"] = "small"
    """Size and training recipe of tokenizers and policies."""
    tokenizer_steps: int | None = None
    """Training steps of each tokenizer; the preset's by default."""
    steps: int | None = None
    """Training steps of each policy; the preset's by default."""
    env: Literal["metaworld", "pusht"] = "metaworld"
    """The simulator."""
    tasks: tuple[str, ...] = ()
    """Task names; by default those that the policy was trained on."""
    episodes: int = 50
    """Of each task, on the same seeds."""
    temperature: float = 1.0
    """Of sampling; 0 takes the likeliest tokens."""
    seed: int = 0
    """Of everything random."""
    workers: int | None = None
    """Simulator processes, by default one per core."""
    columns: Columns = DatasetOptions()


@dataclass(frozen=True)
class Plan:
    """One row."""

    ablation: PolicyAblation
    execute: int
    horizon: int = 32
    num_tokens: int = 8
    levels: tuple[int, ...] = LIGHT_LEVELS

    @property
    def name(self) -> str:
        levels = "".join(map(str, self.levels))
        return f"levels{levels}-horizon{self.horizon}-tokens{self.num_tokens}"


def plans(options: SweepPolicy) -> Iterator[Plan]:
    """All rows of the sweep, or those of one ablation."""
    wanted = (options.only,) if options.only else get_args(PolicyAblation)
    sizes = [(horizon, tokens) for horizon in HORIZONS for tokens in NUM_TOKENS]
    if "horizons-half" in wanted:
        yield from (Plan("horizons-half", max(1, h // 2), h, tokens) for h, tokens in sizes)
    if "horizons-fixed" in wanted:
        yield from (Plan("horizons-fixed", options.execute, h, tokens) for h, tokens in sizes)
    if "levels" in wanted:
        yield from (Plan("levels", 16, levels=levels) for levels in LEVELS)


def sweep_policy(options: SweepPolicy, console: Console) -> PolicySweep:
    """Train and evaluate what is missing in the record, writing it anew after every row."""
    if options.out.suffix != ".json":
        raise ValueError(f"--out is {options.out}, expected a name that ends in .json")
    if not 1 <= options.execute <= min(HORIZONS):
        raise ValueError(
            f"execute is {options.execute}, expected 1 to {min(HORIZONS)}, the shortest chunk"
        )
    dataset = options.columns.open(options.data)
    free = {"data", "out", "only", "workers", "columns"}
    settings = {name: value for name, value in asdict(options).items() if name not in free}
    state = dataset.state.keys if dataset.state else ()
    settings |= {"fingerprint": dataset.fingerprint, "state_keys": list(state)}
    is_begun = options.out.exists()
    sweep = read_or_begin(options.out, PolicySweep(str(dataset.path), settings))
    wanted = list(plans(options))
    for number, plan in enumerate(wanted, 1):
        console.rule(f"{plan.ablation}: {plan.name} ({number} of {len(wanted)})")
        if any(_is_row_of(plan, row) for row in sweep.rows):
            console.print("done before")
            continue
        if not is_begun:
            for part in ("tokenizer", "policy"):
                require_free(_folder(options, plan) / part, options.out)
            is_begun = True
        write_record(options.out, sweep)
        row = _run(options, plan, console)
        sweep = PolicySweep(sweep.data, sweep.settings, (*sweep.rows, row))
        write_record(options.out, sweep)
    for ablation in dict.fromkeys(plan.ablation for plan in wanted):
        console.print(draw(sweep, ablation))
    return sweep


def _is_row_of(plan: Plan, row: PolicySweepRow) -> bool:
    return all(getattr(row, name) == value for name, value in asdict(plan).items())


def _folder(options: SweepPolicy, plan: Plan) -> Path:
    return options.out.with_suffix("") / plan.name


def _run(options: SweepPolicy, plan: Plan, console: Console) -> PolicySweepRow:
    policy_dir = _trained(options, plan, console)
    record = evaluate(
        policy_dir,
        options.env,
        out=_folder(options, plan) / f"execute{plan.execute}",
        tasks=options.tasks,
        episodes=options.episodes,
        execute=plan.execute,
        sampling=Sampling(options.temperature, seed=options.seed),
        workers=options.workers,
        show_progress=True,
    )
    policy = load_policy(policy_dir)
    batch_size = policy.extras["train"]["batch_size"]
    (result,) = record.budgets
    return PolicySweepRow(
        **asdict(plan),
        vocab_size=policy.tokenizer.vocab_size,
        num_parameters=sum(p.numel() for p in policy.net.parameters()),
        seconds=training_seconds(read_log(policy_dir), batch_size),
        result=result,
    )


def _trained(options: SweepPolicy, plan: Plan, console: Console) -> Path:
    """The policy of a row; rows that differ only in execution share it."""
    folder = _folder(options, plan)
    tokenizer, policy = folder / "tokenizer", folder / "policy"
    if (policy / "config.json").exists():
        console.print(f"{policy} is trained")
        return policy
    if not (tokenizer / "config.json").exists():
        wanted = TrainTokenizer(
            data=options.data,
            out=tokenizer,
            kind=options.kind,
            preset=options.preset,
            horizon=plan.horizon,
            num_tokens=plan.num_tokens,
            levels=plan.levels,
            steps=options.tokenizer_steps,
            seed=options.seed,
            columns=options.columns,
        )
        train_tokenizer(wanted, console)
    train_policy(
        TrainPolicy(
            data=options.data,
            out=policy,
            tokenizer=tokenizer,
            preset=options.preset,
            steps=options.steps,
            seed=options.seed,
            columns=options.columns,
        ),
        console,
    )
    return policy


def draw(sweep: PolicySweep, ablation: PolicyAblation) -> Text:
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
