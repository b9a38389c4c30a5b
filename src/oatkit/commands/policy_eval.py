"""`oatkit policy eval`: success in a simulator, or on a benchmark of the paper, with intervals."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, UseAppendAction, arg

from oatkit.commands.benchmark_output import env_options, render_benchmarks
from oatkit.commands.command_line import command_line
from oatkit.commands.device_options import DeviceFlag, DtypeFlag, announce_device
from oatkit.commands.evaluation_choices import BenchmarkName, SimulatorName
from oatkit.commands.remote_options import RemoteFlags, RemoteOptions, open_remote
from oatkit.commands.sampling_options import DecodingFlag, SamplingFlags
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines, table_row, titled
from oatkit.errors import MissingExtraError
from oatkit.evaluation.benchmark_statistics import benchmark_rows
from oatkit.evaluation.episode_runner import TIMEOUT_S
from oatkit.evaluation.queried_policy import Evaluable
from oatkit.evaluation.worker_processes import num_cores
from oatkit.jobs.evaluation_comparison import with_comparisons
from oatkit.jobs.evaluation_plan import make_rollout, plan_evaluation
from oatkit.jobs.evaluation_shards import EvaluationWork
from oatkit.jobs.policy_evaluation import RECORD, acting_policy, evaluate
from oatkit.measure.reports.report_words import actor, execution_words, maybe, result_name
from oatkit.storage.records import read_record, write_record
from oatkit.types import (
    BenchmarkEvaluation,
    Budget,
    ExecuteSteps,
    Execution,
    Head,
    PolicyEvaluation,
    Sampling,
    Schedule,
    SuccessRate,
    budget_name,
)
from oatkit.types.observation_keys import STATE

NOT_OF_BENCHMARKS = (
    "tasks",
    "videos",
    "rerun",
    "shard",
    "shadows",
    "timeout_s",
)
"""Flags of the simulators here, which praxis-eval does not have."""
NOT_OF_SHARDS = ("videos", "rerun", "against")
"""Flags of a whole evaluation, which one of its shards cannot do."""
WIDTHS = (8, 10, 18, 8)
"""Characters of the columns: name, rate, interval, then all others."""


@dataclass(frozen=True)
class EvalPolicy:
    """Run a policy in a simulator and count its successes.

    Example:
        oatkit policy eval out/policy --env metaworld --budgets 1 2 4 8 auto --out out/eval
        oatkit policy eval out/policy --benchmark light-libero --budgets 1 2 4 8 --out out/libero
        oatkit policy eval --remote ws://gpu:8000 --env metaworld --budgets 1 8 --out out/there
    """

    policy: Annotated[Positional[Path | None], arg(metavar="DIR")] = None
    """Policy artifact; none with --remote."""
    out: Annotated[Path, arg(metavar="DIR")] = field(kw_only=True)
    """Output folder. Running the command again resumes; finished episodes are kept when tasks,
    budgets or episodes are added."""
    server: RemoteFlags = RemoteOptions()
    env: SimulatorName = "metaworld"
    """The simulator."""
    benchmark: BenchmarkName | None = None
    """A row of the paper's table of benchmarks instead: its tasks, episodes and execution, run by
    way of praxis-eval."""
    env_option: UseAppendAction[tuple[str, ...]] = ()
    """KEY=VALUE for the simulator of --benchmark, such as python_bin=PATH for SimplerEnv."""
    tasks: tuple[str, ...] = ()
    """Task names; by default those that the policy was trained on."""
    episodes: int = 50
    """Number of episodes of each task and budget, on the same seeds."""
    budgets: tuple[Budget, ...] = ()
    """How many tokens to generate, or `auto`; all tokens by default."""
    execute: ExecuteSteps = None
    """Steps of a chunk that are executed before the next query, or `auto` for as many as the policy
    finds worth it; the first half by default."""
    blend: float | None = None
    """Average each action with those of older chunks, whose weights are exp(-blend * age in steps);
    by default the latest chunk is followed alone."""
    delay: int = 0
    """Steps that a chunk comes late, as on a robot that does not wait; the older one goes on."""
    draws: int = 1
    """Chunks to generate for an observation; the one that goes on best with the plan under way is
    executed."""
    commit: bool = False
    """Tell the policy the actions that are executed before its chunk acts, which are those of
    --delay: the chunk then begins with them. It is for tokens whose prefixes decode."""
    head: Head | None = None
    """Which output of a co-trained policy produces the actions: its flow expert by default, or its
    tokens."""
    decoding: DecodingFlag = None
    sampling: SamplingFlags = Sampling(seed=0)
    endpoints: tuple[int, ...] = ()
    """Generation schedule to override the policy's with; its own by default."""
    videos: int = 0
    """Number of episodes of each task and budget to film, of those that are run now."""
    rerun: Annotated[Path | None, arg(metavar="FILE.rrd")] = None
    """Also record the episodes that are run now for the Rerun viewer: what the policy saw, the
    chunks and tokens that it predicted, and the actions that were executed."""
    workers: int | None = None
    """Number of simulator processes, by default one per core."""
    timeout_s: float = TIMEOUT_S
    """A simulator process that does not answer for so many seconds is killed and started again;
    with --remote also the longest time of a query."""
    shard: ShardFlag = None
    device: DeviceFlag = "auto"
    dtype: DtypeFlag = None
    state_key: tuple[str, ...] = ()
    """Parts of the simulator's observation that are the policy's state; as in training by
    default."""
    shadows: Annotated[bool, arg(help_behavior_hint="(shadows by default)")] = True
    """Whether to render shadows (metaworld, robosuite), as the training images have them or not."""
    against: Annotated[tuple[Path, ...], arg(metavar="FILE.json")] = ()
    """Records of other policies to compare with, pair by pair."""


def run(options: EvalPolicy, console: Console) -> int:
    remote = open_remote(options.server, options.timeout_s)
    policy = options.policy or remote
    if policy is None or None not in (options.policy, remote):
        raise ValueError("name one policy: the folder of an artifact, or --remote ws://host:port")
    if options.benchmark is not None:
        return run_benchmark(options, options.benchmark, console)
    if options.env_option:
        raise ValueError("--env-option is for --benchmark: leave it out")
    if options.shard is not None:
        return run_evaluation_shard(options, policy, options.shard, console)
    others = [read_record(path, PolicyEvaluation) for path in options.against]
    if remote is None:
        announce_device(console, options.device, options.dtype)
    record = evaluate(
        policy,
        options.env,
        tasks=options.tasks,
        episodes=options.episodes,
        budgets=options.budgets,
        execute=options.execute,
        blend=options.blend,
        delay=options.delay,
        draws=options.draws,
        commit=options.commit,
        head=options.head,
        decoding=options.decoding,
        schedule=Schedule(options.endpoints) if options.endpoints else None,
        sampling=options.sampling,
        state_keys=options.state_key,
        shadows=options.shadows,
        out=options.out,
        videos=options.videos,
        rerun=options.rerun,
        workers=options.workers,
        timeout_s=options.timeout_s,
        device=options.device,
        dtype=options.dtype,
        command=command_line("policy eval", options, positional="policy"),
        show_progress=not console.quiet,
    )
    path = options.out / RECORD
    if others:
        record = with_comparisons(record, others)
        write_record(path, record)
    console.print(render_evaluation(record), soft_wrap=True)
    report = write_report(record, options.out, console)
    print_lines(
        console,
        f"wrote {path}",
        *([] if options.rerun is None else [f"wrote {options.rerun}: open it with `rerun`"]),
        *([] if report is None else [f"open {report}"]),
        f"next: oatkit policy eval ANOTHER --env {options.env} --against {shlex.quote(str(path))} "
        "--out DIR",
    )
    return 0


def run_evaluation_shard(
    options: EvalPolicy, policy: Path | Evaluable, shard: str, console: Console
) -> int:
    """Run one shard of the episodes."""
    for name in NOT_OF_SHARDS:
        if getattr(options, name):
            raise ValueError(f"--{name} is not for --shard: leave it out")
    schedule = Schedule(options.endpoints) if options.endpoints else None
    given = (schedule, options.head, options.decoding, options.device, options.dtype)
    rule = (options.execute, options.blend, options.delay, options.draws, options.commit)
    execution = Execution(*rule)
    with acting_policy(policy, options.budgets, *given) as opened:
        rollout = make_rollout(opened, execution, options.sampling, options.state_key, schedule)
        work = EvaluationWork(
            plan_evaluation(opened, options.env, rollout, options.tasks, options.shadows),
            episodes=options.episodes,
            workers=options.workers or num_cores(),
            timeout_s=options.timeout_s,
        )
        return run_as_shard(work, shard, options.out, console)


def run_benchmark(options: EvalPolicy, benchmark: str, console: Console) -> int:
    """Evaluate on a benchmark of the paper, budget by budget, each in a folder of its own."""
    from oatkit.jobs.benchmark_evaluation import RECORD as BENCHMARK_RECORD
    from oatkit.jobs.benchmark_evaluation import evaluate_benchmark

    if options.policy is None:
        raise ValueError("--remote is not for --benchmark: name the folder of an artifact")
    default = EvalPolicy(options.policy, out=options.out)
    for name in NOT_OF_BENCHMARKS:
        if getattr(options, name) != getattr(default, name):
            flag = f"--{'no-' * (name == 'shadows')}{name.replace('_', '-')}"
            raise ValueError(f"{flag} is not for --benchmark: leave it out")
    device = announce_device(console, options.device, options.dtype)
    others = [read_record(path, BenchmarkEvaluation) for path in options.against]
    records = []
    for budget in options.budgets or (None,):
        out = options.out / f"budget-{budget_name(budget)}" if options.budgets else options.out
        record = evaluate_benchmark(
            options.policy,
            benchmark,
            out=out,
            budget=budget,
            sampling=options.sampling,
            schedule=Schedule(options.endpoints) if options.endpoints else None,
            execute=options.execute,
            blend=options.blend,
            delay=options.delay,
            draws=options.draws,
            commit=options.commit,
            episodes=options.episodes,
            state_keys=options.state_key or (STATE,),
            num_parallel=options.workers or 1,
            env_kwargs=env_options(options.env_option),
            head=options.head,
            decoding=options.decoding,
            device=device,
            dtype=options.dtype,
            command=command_line("policy eval", options, positional="policy"),
        )
        records.append(record)
        print_lines(console, f"wrote {out / BENCHMARK_RECORD}")
    shown = [*records, *others]
    rows = benchmark_rows(shown)
    console.print(render_benchmarks(shown, rows), soft_wrap=True)
    try:
        from oatkit.measure.reports.benchmark_report import write_benchmark_report
    except MissingExtraError as error:
        print_lines(console, f"no report.html: {error}")
        return 0
    print_lines(console, f"open {write_benchmark_report(shown, rows, options.out)}")
    return 0


def write_report(record: PolicyEvaluation, folder: Path, console: Console) -> Path | None:
    """Write a page beside the record, where matplotlib is installed; returns its path."""
    try:
        from oatkit.measure.reports.evaluation_report import write_evaluation_report
    except MissingExtraError as error:
        print_lines(console, f"no report.html: {error}")
        return None
    return write_evaluation_report(record, folder)


def render_evaluation(record: PolicyEvaluation) -> Text:
    """Success by budget and task, then the paired comparisons and what went wrong."""
    what = f"by its {actor(record)}" if actor(record) else f"on {record.kind} tokens"
    text = titled(
        f"\n{record.policy}",
        f"{what} in {record.settings['env']}, {execution_words(record)}",
    )
    has_score = any(b.score is not None for b in record.budgets)
    names = ["tokens", "calls", "ms", "acted", "seams", "else"]
    names += ["steps", "score"] if has_score else []
    text.append(table_row("budget", "success", "95 % interval", *names, widths=WIDTHS), "dim")
    for b in record.budgets:
        cells = [f"{b.tokens:.3g}", f"{b.calls:.3g}", maybe(b.latency_ms, ".3g")]
        cells += [maybe(b.steps_per_query, ".3g")]
        cells += [maybe(jump, ".2g") for jump in (b.seam_jump, b.inner_jump)]
        cells += [f"{b.steps:.0f}", f"{b.score or 0:.3f}"] if has_score else []
        text.append(_success_row(result_name(record, b.budget), b.success, *cells))
        for task in b.tasks if len(b.tasks) > 1 else ():
            row = _success_row("", task.success)
            text.append(row.rstrip("\n") + f"  {task.task}\n", style="dim")
    text.append(
        "ms: of a query; acted: steps executed after it; seams, else: mean jump between successive "
        "actions where a chunk begins and elsewhere, normalized units\n",
        "dim",
    )
    for c in record.comparisons:
        text.append(
            f"{c.second} against {c.first}: {c.difference:+.1%} ({c.low:+.1%} to {c.high:+.1%}, "
            f"p = {c.p_value:.2g}; of {c.episodes} episodes, {c.only_second} solved only by "
            f"{c.second}, {c.only_first} only by {c.first})\n"
        )
    text.append(_failures(record))
    text.rstrip()
    return text


def _success_row(name: str, success: SuccessRate, *cells: str) -> str:
    interval = f"{success.low:.1%} - {success.high:.1%}"
    return table_row(name, f"{success.rate:.1%}", interval, *cells, widths=WIDTHS)


def _failures(record: PolicyEvaluation) -> str:
    lines = []
    errors = sum(e.error is not None for e in record.episodes)
    if errors:
        lines.append(
            f"{errors} episodes ended because no generated token sequence could be decoded\n"
        )
    redrawn = sum(e.redrawn or 0 for e in record.episodes)
    if redrawn:
        queries = sum(e.queries for e in record.episodes)
        lines.append(f"{redrawn} of {queries} queries had to generate their tokens again\n")
    if record.worker_deaths or record.worker_hangs:
        repeats = sum(e.repeats > 0 for e in record.episodes)
        lines.append(
            f"{record.worker_deaths} simulator processes died, {record.worker_hangs} hung and were "
            f"killed; {repeats} episodes were repeated\n"
        )
    return "".join(lines)
