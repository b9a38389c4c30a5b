"""`oatkit policy eval`: success in a simulator with intervals, one JSON and its report, resumable.

out/evaluation.json                          the record; grows as episodes end
out/report.html                              the same to look at, videos included
out/videos/box-close-budget-4-003.mp4        with --videos
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.command_line import command_line
from oatkit.envs.simulator import STATE_KEY, SimulatorKind
from oatkit.envs.simulator_table import simulator_kind
from oatkit.errors import MissingExtraError
from oatkit.evaluation.episodes import TIMEOUT_S, Evaluation, Job, Rollout, require_tasks
from oatkit.evaluation.success_statistics import compare_paired, summarize
from oatkit.measure.reports.evaluation_words import acts_by_flow, budget_name, result_name
from oatkit.policies import AnyPolicy, load_policy
from oatkit.policies.generation.prediction import resolve_budget
from oatkit.policies.policy_table import choose_head
from oatkit.storage.digest import digest, settings_part, tensor_parts
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, read_record, write_record
from oatkit.types import (
    EpisodeResult,
    EpisodeVideo,
    PairedComparison,
    PolicyEvaluation,
    Sampling,
    Schedule,
)

RECORD = "evaluation.json"
WRITE_EVERY_S = 5.0


@dataclass(frozen=True)
class EvalPolicy:
    """Run a policy in a simulator and count its successes.

    Example:
        oatkit policy eval out/policy --env metaworld --budgets 1 2 4 8 auto --out out/eval
    """

    policy: Annotated[Positional[Path], arg(metavar="DIR")]
    """Policy artifact."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Where to write record and report; the same command again goes on, with more of it too."""
    env: Literal["metaworld", "pusht"] = "metaworld"
    """The simulator."""
    tasks: tuple[str, ...] = ()
    """Task names; by default those that the policy was trained on."""
    episodes: int = 50
    """Of each task and budget, on the same seeds."""
    budgets: tuple[int | Literal["auto"], ...] = ()
    """How many tokens to generate, or `auto`; all tokens by default."""
    execute: int | None = None
    """Steps of a chunk that are executed before the next query; the first half by default."""
    head: Literal["flow", "tokens"] | None = None
    """What acts of a co-trained policy: its flow expert by default, or its tokens."""
    temperature: float = 1.0
    """Of sampling; 0 takes the likeliest tokens."""
    top_k: int = 10
    """Sample from so many of the likeliest tokens; 0 for all."""
    endpoints: tuple[int, ...] = ()
    """Generation schedule to override the policy's with; its own by default."""
    seed: int = 0
    """Decides the goals and the draws. No seed has a goal that demonstrations use."""
    videos: int = 0
    """Episodes of each task and budget to film, of those that are run now."""
    workers: int | None = None
    """Simulator processes, by default one per core."""
    timeout_s: float = TIMEOUT_S
    """A simulator process that does not answer for so many seconds is killed and started again."""
    state_key: tuple[str, ...] = ()
    """What of the simulator's observation is the policy's state; as in training by default."""
    shadows: Annotated[bool, arg(help_behavior_hint="(shadows by default)")] = True
    """Render without shadows (metaworld), if the images of training have none."""
    against: Annotated[tuple[Path, ...], arg(metavar="FILE.json")] = ()
    """Records of other policies to compare with, pair by pair."""


def eval_policy(options: EvalPolicy, console: Console) -> PolicyEvaluation:
    """Run the episodes that the record lacks, and write it anew as they end."""
    policy = load_policy(options.policy)
    choose_head(policy, options.head)
    simulator = _simulator(options, policy)
    budgets = _budgets(options, policy)
    asked = options.tasks or _known_tasks(policy, simulator)
    tasks = tuple(simulator.task_name(task) for task in asked)
    _check(options, policy, simulator, tasks)
    others = [read_record(path, PolicyEvaluation) for path in options.against]
    data = policy.extras.get("data", {})
    if data.get("fps") not in (None, simulator.fps):
        console.print(
            f"note: the policy was trained at {data['fps']:g} steps a second, {simulator.name} has "
            f"{simulator.fps}",
            soft_wrap=True,
        )
    rollout = Rollout(
        execute=options.execute or max(1, policy.tokenizer.horizon // 2),
        seed=options.seed,
        sampling=Sampling(temperature=options.temperature, top_k=options.top_k or None),
        state_keys=options.state_key or tuple(data.get("state_keys", (STATE_KEY,))),
        endpoints=options.endpoints or None,
    )
    path = options.out / RECORD
    begun = PolicyEvaluation(
        policy=str(options.policy),
        kind=policy.tokenizer.kind,
        settings=_settings(options, policy, simulator, rollout),
        versions=package_versions(),
    )
    command = command_line("policy eval", options, positional="policy")
    record = replace(read_or_begin(path, begun), command=command)
    done = {(e.task, e.budget, e.episode) for e in record.episodes}
    jobs = [
        Job(task, budget, episode, film=_film(options, task, budget, episode))
        for task in tasks
        for budget in budgets
        for episode in range(options.episodes)
        if (task, budget, episode) not in done
    ]
    if record.episodes:
        console.print(f"{len(record.episodes)} episodes were finished before")
    if jobs:
        record = _run(policy, simulator, rollout, jobs, record, options, console)
    record = replace(
        record, comparisons=_compare(record, others), videos=_videos(record, options.out)
    )
    write_record(path, record)
    console.print(draw(record))
    _write_report(record, options.out, console)
    return record


def _run(
    policy: AnyPolicy,
    simulator: SimulatorKind,
    rollout: Rollout,
    jobs: Sequence[Job],
    record: PolicyEvaluation,
    options: EvalPolicy,
    console: Console,
) -> PolicyEvaluation:
    """The record with the results of `jobs`; whatever happens, what has ended is written."""
    path = options.out / RECORD
    evaluation = Evaluation(
        policy,
        simulator,
        rollout,
        num_workers=options.workers or os.cpu_count() or 1,
        timeout_s=options.timeout_s,
    )
    ended: list[EpisodeResult] = []
    began = written = time.monotonic()

    def grown() -> PolicyEvaluation:
        latencies = {budget_name(b): ms for b, ms in evaluation.latencies_ms.items()}
        return summarized(
            replace(
                record,
                worker_deaths=record.worker_deaths + evaluation.worker_deaths,
                worker_hangs=record.worker_hangs + evaluation.worker_hangs,
                seconds=record.seconds + time.monotonic() - began,
                latencies_ms=latencies | record.latencies_ms,
                episodes=(*record.episodes, *ended),
            )
        )

    with (
        _stops_explained(path),
        _progress(len(jobs), console) as show,
        closing(evaluation.run(jobs)) as results,
    ):
        try:
            for result in results:
                ended.append(result)
                show(result)
                if time.monotonic() - written > WRITE_EVERY_S:
                    write_record(path, grown())
                    written = time.monotonic()
        finally:
            if ended:
                write_record(path, grown())
    return grown()


def summarized(record: PolicyEvaluation) -> PolicyEvaluation:
    """The record with its episodes in order and in numbers."""
    episodes = sorted(
        record.episodes, key=lambda e: (e.budget is None, e.budget or 0, e.task, e.episode)
    )
    budgets = [
        summarize(
            budget,
            [e for e in episodes if e.budget == budget],
            latency_ms=record.latencies_ms.get(budget_name(budget)),
        )
        for budget in dict.fromkeys(e.budget for e in episodes)
    ]
    return replace(record, episodes=tuple(episodes), budgets=tuple(budgets))


def _compare(
    record: PolicyEvaluation, others: Sequence[PolicyEvaluation]
) -> tuple[PairedComparison, ...]:
    """Every budget with the largest; then each other policy, at its largest budget, with ours."""
    found: list[PairedComparison | None] = []
    ours, largest = _by_budget(record), _largest(record)
    found += [
        compare_paired(budget_name(budget), budget_name(largest), own, ours[largest])
        for budget, own in ours.items()
        if budget != largest
    ]
    for other in others:
        theirs = _largest(other)
        pair = compare_paired(
            _named(other, theirs),
            _named(record, largest),
            _by_budget(other)[theirs],
            ours[largest],
        )
        if pair is None:
            raise ValueError(f"the record of {other.policy} has no episode of the same seed")
        found.append(pair)
    return tuple(pair for pair in found if pair is not None)


def _named(record: PolicyEvaluation, budget: int | None) -> str:
    return f"{record.policy} at {result_name(record, budget)}"


def _by_budget(record: PolicyEvaluation) -> dict[int | None, list[EpisodeResult]]:
    groups: dict[int | None, list[EpisodeResult]] = {}
    for episode in record.episodes:
        groups.setdefault(episode.budget, []).append(episode)
    return groups


def _largest(record: PolicyEvaluation) -> int | None:
    return max((e.budget for e in record.episodes if e.budget is not None), default=None)


# The options


def _simulator(options: EvalPolicy, policy: AnyPolicy) -> SimulatorKind:
    simulator = simulator_kind(options.env)
    if options.shadows:
        return simulator
    if simulator.make_without_shadows is None or not policy.spec.cameras:
        raise ValueError("--no-shadows is for policies that read images of metaworld: leave it out")
    return replace(simulator, make=simulator.make_without_shadows)


def _budgets(options: EvalPolicy, policy: AnyPolicy) -> list[int | None]:
    """Numbers of tokens, None for "auto"; one that the policy cannot have is an error."""
    schedule = Schedule(options.endpoints) if options.endpoints else policy.schedule
    asked = options.budgets or (schedule.num_tokens,)
    if policy.head == "flow" and options.budgets:
        raise ValueError(f"{policy.kind} acts by its flow expert, which has no budgets")
    if len(set(asked)) < len(asked):
        raise ValueError(f"budgets are {list(asked)}, expected each once")
    for budget in asked:
        resolve_budget(policy.tokenizer, schedule, budget)
    if "auto" in asked and policy.auto is None:
        raise ValueError("budget 'auto' has no thresholds: `oatkit policy train` finds them")
    return [None if budget == "auto" else int(budget) for budget in asked]


def _known_tasks(policy: AnyPolicy, simulator: SimulatorKind) -> tuple[str, ...]:
    known = [task for task, text in simulator.tasks.items() if text in policy.spec.tasks]
    return tuple(known) or simulator.default_tasks


def _check(
    options: EvalPolicy, policy: AnyPolicy, simulator: SimulatorKind, tasks: Sequence[str]
) -> None:
    for name, value in (("episodes", options.episodes), ("workers", options.workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, expected 1 or more")
    for name, value in (("videos", options.videos), ("top_k", options.top_k)):
        if value < 0:
            raise ValueError(f"{name} is {value}, expected 0 or more")
    if not options.timeout_s > 0:
        raise ValueError(f"timeout_s is {options.timeout_s:g}, expected more than 0")
    if len(set(tasks)) < len(tasks):
        raise ValueError(f"tasks are [{', '.join(tasks)}], expected each once")
    horizon, action_dim = policy.tokenizer.horizon, policy.tokenizer.action_dim
    if options.execute is not None and not 1 <= options.execute <= horizon:
        raise ValueError(f"execute is {options.execute}, expected 1 to {horizon}, a whole chunk")
    if action_dim != len(simulator.action_low):
        raise ValueError(
            f"{options.policy} is for {action_dim} action dimensions, {simulator.name} has "
            f"{len(simulator.action_low)}"
        )
    require_tasks(policy.spec, simulator, tasks)
    if options.videos:
        import oatkit.data.video  # noqa: F401  says now what it lacks


def _settings(
    options: EvalPolicy, policy: AnyPolicy, simulator: SimulatorKind, rollout: Rollout
) -> dict[str, Any]:
    """All that decides an episode, beside its task, budget and number."""
    try:
        packages = {name: version(name) for name in simulator.packages}
    except PackageNotFoundError as error:
        raise MissingExtraError(simulator.extra) from error
    return {
        "env": simulator.name,
        **asdict(rollout),
        "state_keys": list(rollout.state_keys),
        "horizon": policy.tokenizer.horizon,
        "history": policy.spec.history,
        "max_steps": simulator.max_steps,
        "shadows": options.shadows if policy.spec.cameras else None,
        **({"head": policy.head} if "flow" in policy.heads else {}),
        "digest": _digest(policy),
        "packages": packages,
    }


def _digest(policy: AnyPolicy) -> str:
    """Changes when a policy would act otherwise."""
    facts = {k: policy.to_json()[k] for k in ("net", "observation", "auto")}
    return digest(
        policy.tokenizer.digest.encode(),
        settings_part(facts),
        *tensor_parts(policy.net.state_dict()),
    )


def _film(options: EvalPolicy, task: str, budget: int | None, episode: int) -> Path | None:
    if episode >= options.videos:
        return None
    return options.out / _video_path(task, budget, episode)


def _video_path(task: str, budget: int | None, episode: int) -> str:
    return f"videos/{task}-budget-{budget_name(budget)}-{episode:03d}.mp4"


def _videos(record: PolicyEvaluation, folder: Path) -> tuple[EpisodeVideo, ...]:
    """Those that are there, whichever run made them."""
    paths = {e: _video_path(e.task, e.budget, e.episode) for e in record.episodes}
    return tuple(
        EpisodeVideo(e.task, e.budget, e.episode, path)
        for e, path in paths.items()
        if (folder / path).exists()
    )


# What is shown


def _write_report(record: PolicyEvaluation, folder: Path, console: Console) -> None:
    """A page beside the record, where matplotlib is installed."""
    try:
        from oatkit.measure.reports.evaluation_report import write_evaluation_report
    except MissingExtraError as error:
        console.print(f"no report.html: {error}", markup=False, soft_wrap=True)
        return
    write_evaluation_report(record, folder)


@contextmanager
def _stops_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; finished episodes are kept in {path}, the same command again continues"
        ) from None


@contextmanager
def _progress(num_jobs: int, console: Console) -> Iterator[Callable[[EpisodeResult], None]]:
    """A bar of the episodes; call what is yielded with each that ends."""
    columns = (
        TextColumn("{task.description:30}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} episodes"),
        TextColumn("{task.fields[solved]} solved"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("starting", total=num_jobs, solved=0)
        solved = 0

        def show(result: EpisodeResult) -> None:
            nonlocal solved
            solved += result.is_success
            what = (
                f"{result.task}, budget {budget_name(result.budget)}"
                if result.tokens
                else result.task
            )
            progress.update(bar, advance=1, description=what, solved=solved)

        yield show


def draw(record: PolicyEvaluation) -> Text:
    """Success by budget and task, then the paired comparisons."""
    text = Text(overflow="fold")
    text.append(f"\n{record.policy}", style="bold")
    means = "by its flow expert" if acts_by_flow(record) else f"on {record.kind} tokens"
    text.append(
        f"  {means} in {record.settings['env']}, {record.settings['execute']} of "
        f"{record.settings['horizon']} steps executed\n",
        style="dim",
    )
    has_score = any(b.score is not None for b in record.budgets)
    heads = ["tokens", "calls", "ms", "steps", "score"] if has_score else ["tokens", "calls", "ms"]
    text.append(_row("budget", "success", "95 % interval", *heads), style="dim")
    for b in record.budgets:
        ms = "-" if b.latency_ms is None else f"{b.latency_ms:.3g}"
        cells = [f"{b.tokens:.3g}", f"{b.calls:.3g}", ms]
        cells += [f"{b.steps:.0f}", f"{b.score or 0:.3f}"] if has_score else []
        s = b.success
        text.append(
            _row(result_name(record, b.budget), f"{s.rate:.1%}", _interval(s.low, s.high), *cells)
        )
        for task in b.tasks if len(b.tasks) > 1 else ():
            s = task.success
            row = _row("", f"{s.rate:.1%}", _interval(s.low, s.high))
            text.append(row.rstrip("\n") + f"  {task.task}\n", style="dim")
    for c in record.comparisons:
        text.append(
            f"{c.second} against {c.first}: {c.difference:+.1%} ({c.low:+.1%} to {c.high:+.1%}, "
            f"p {c.p_value:.2g}; {c.only_second} and {c.only_first} of {c.episodes} alone)\n"
        )
    errors = sum(e.error is not None for e in record.episodes)
    repeats = sum(e.repeats > 0 for e in record.episodes)
    if errors:
        text.append(f"{errors} episodes ended for want of a chunk that decodes\n")
    if record.worker_deaths or record.worker_hangs:
        text.append(
            f"{record.worker_deaths} simulator processes died, {record.worker_hangs} hung and were "
            f"killed; {repeats} episodes were repeated\n"
        )
    text.rstrip()
    return text


def _row(name: str, rate: str, interval: str, *cells: str) -> str:
    return f"{name:>8}{rate:>10}{interval:>18}" + "".join(f"{cell:>8}" for cell in cells) + "\n"


def _interval(low: float, high: float) -> str:
    return f"{low:.1%} - {high:.1%}"
