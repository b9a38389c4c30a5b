"""A policy in a simulator: success with intervals, in a record that grows as episodes end.

out/evaluation.json                          the record
out/videos/box-close-budget-4-003.mp4        videos, where they are asked for
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from oatkit.envs.simulator import SimulatorKind
from oatkit.errors import RemoteError
from oatkit.evaluation.episode_recording import EpisodeRecorder
from oatkit.evaluation.episode_runner import TIMEOUT_S, EpisodeRunner
from oatkit.evaluation.queried_policy import SCHEMES, Evaluable, EvaluatedPolicy
from oatkit.evaluation.rollout import EpisodePlan
from oatkit.evaluation.success_statistics import summarize
from oatkit.evaluation.worker_processes import num_cores
from oatkit.jobs.episode_bar import episode_bar
from oatkit.jobs.evaluation_comparison import with_comparisons
from oatkit.jobs.evaluation_plan import EvaluationPlan, make_rollout, plan_evaluation
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.types import (
    Budget,
    Decoding,
    Dtype,
    EpisodeResult,
    EpisodeVideo,
    ExecuteSteps,
    Execution,
    Head,
    PolicyEvaluation,
    Sampling,
    Schedule,
    budget_name,
    budget_order,
)

if TYPE_CHECKING:  # a policy elsewhere is evaluated without torch, and what needs it is not loaded
    from oatkit.nn.device import Device
    from oatkit.policies import Policy

RECORD = "evaluation.json"
WRITE_EVERY_S = 5.0


def evaluate(
    policy: Policy | Evaluable | str | os.PathLike[str],
    simulator: str | SimulatorKind = "metaworld",
    *,
    tasks: Sequence[str] = (),
    episodes: int = 50,
    budgets: Sequence[Budget] = (None,),
    execute: ExecuteSteps = None,
    blend: float | None = None,
    delay: int = 0,
    draws: int = 1,
    commit: bool = False,
    head: Head | None = None,
    decoding: Decoding | None = None,
    schedule: Schedule | None = None,
    sampling: Sampling = Sampling(seed=0),
    state_keys: Sequence[str] = (),
    shadows: bool = True,
    out: str | os.PathLike[str] | None = None,
    videos: int = 0,
    rerun: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    timeout_s: float = TIMEOUT_S,
    device: Device = "auto",
    dtype: Dtype | None = None,
    command: str = "",
    show_progress: bool = False,
) -> PolicyEvaluation:
    """Run a policy in a simulator and count its successes; the same call again goes on in `out`.

    Args:
        policy: A policy, the folder or hub id of one, or a server: `ws://...`, or `RemotePolicy`.
        simulator: Name of the simulator, or a simulator of your own.
        tasks: Task names; those that the policy was trained on by default.
        episodes: Number of episodes of each task and budget, on the same seeds.
        budgets: How many tokens to generate: numbers, "auto", or None for all.
        execute: Steps of a chunk to execute, or "auto", see `Execution.steps`; half by default.
        blend: Decay by which actions are averaged with those of older chunks; None for no average.
        delay, draws, commit: How late chunks act, and how they go on from others: see `Execution`.
        head: What acts of a co-trained policy: its flow expert by default, or its tokens.
        decoding: What `fast` does with sequences that are no chunk; as trained by default.
        schedule: Generation schedule; the policy's own by default.
        sampling: Rules by which ids are chosen. Its seed (0 where it has none) decides goals too.
        state_keys: Parts of the observation that are the policy's state; as trained by default.
        shadows: Whether images have shadows, as those of training had (metaworld, robosuite).
        out: Folder of the record and the videos; None to keep the record in memory.
        videos: Number of episodes of each task and budget to film, of those that are run now.
        rerun: File for a recording of the episodes that are run now, for the Rerun viewer.
        workers: Number of simulator processes; one per core by default.
        timeout_s: Seconds after which a silent simulator process is killed and started again.
        device: Where a policy that is opened here runs, or a given one if named; `resolve_device`.
        dtype: Type of the weights of a policy that is opened here; as trained by default.
        command: What the record says was typed.
        show_progress: Whether to show a progress bar.
    """
    run = _Run(out, episodes, videos, rerun, workers, timeout_s, show_progress)
    with acting_policy(policy, budgets, schedule, head, decoding, device, dtype) as opened:
        execution = Execution(execute, blend, delay, draws, commit)
        rollout = make_rollout(opened, execution, sampling, state_keys, schedule)
        return run.finish(plan_evaluation(opened, simulator, rollout, tasks, shadows), command)


@contextmanager
def acting_policy(
    policy: Policy | Evaluable | str | os.PathLike[str],
    budgets: Sequence[Budget],
    schedule: Schedule | None,
    head: Head | None,
    decoding: Decoding | None,
    device: Device,
    dtype: Dtype | None,
) -> Iterator[EvaluatedPolicy]:
    """The policy here or, by its address, elsewhere, where its server decides all else."""
    budgets = budgets or (None,)
    is_address = isinstance(policy, str) and policy.startswith(SCHEMES)
    if not is_address and not isinstance(policy, Evaluable):
        from oatkit.jobs.opened_policy import open_for_evaluation

        yield open_for_evaluation(
            policy,
            budgets,
            schedule=schedule,
            head=head,
            decoding=decoding,
            device=device,
            dtype=dtype,
        )
        return
    chosen = {
        "endpoints": schedule is not None,
        "head": head is not None,
        "decoding": decoding is not None,
        "device": device != "auto",
        "dtype": dtype is not None,
    }
    for name, is_chosen in chosen.items():
        if is_chosen:
            raise ValueError(f"--{name} is not for a policy elsewhere, whose server decides it")
    if isinstance(policy, Evaluable):
        yield policy.evaluated(budgets)
        return
    from oatkit.evaluation.remote_policy import RemotePolicy

    with closing(RemotePolicy(str(policy))) as remote:
        yield remote.evaluated(budgets)


class _Run:
    """The episodes that a record lacks; arguments, which are checked, are `evaluate`'s."""

    def __init__(
        self,
        out: str | os.PathLike[str] | None,
        episodes: int,
        videos: int,
        rerun: str | os.PathLike[str] | None,
        workers: int | None,
        timeout_s: float,
        show_progress: bool,
    ) -> None:
        for name, value in (("episodes", episodes), ("workers", workers)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more")
        if videos < 0:
            raise ValueError(f"videos is {videos}, expected 0 or more")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s is {timeout_s:g}, expected more than 0")
        if videos and out is None:
            raise ValueError("videos need a folder: name one with --out (out)")
        if videos:
            import oatkit.data.video  # noqa: F401  says now what it lacks
        self._folder = None if out is None else Path(out)
        self._episodes, self._num_videos = episodes, videos
        self._rerun = None if rerun is None else Path(rerun)
        self._num_workers = workers or num_cores()
        self._timeout_s = timeout_s
        self._console = Console(highlight=False, quiet=not show_progress)

    def finish(self, plan: EvaluationPlan, command: str) -> PolicyEvaluation:
        """Run what the record lacks; returns the record with its comparisons."""
        record = replace(self._begin(plan), command=command)
        done = {(e.task, e.budget, e.episode) for e in record.episodes}
        plans = [
            EpisodePlan(task, budget, episode, self._film(task, budget, episode))
            for task in plan.tasks
            for budget in plan.policy.budgets
            for episode in range(self._episodes)
            if (task, budget, episode) not in done
        ]
        if record.episodes:
            self._console.print(f"{len(record.episodes)} episodes were finished before")
        if self._rerun is not None and not plans:
            raise ValueError(
                f"all episodes were finished before, so there is none to record in {self._rerun} "
                "(--rerun): evaluate into another folder"
            )
        if plans:
            self._note_other_rate(plan)
            record = self._run(plan, plans, replace(record, device=plan.policy.device))
        record = with_comparisons(replace(record, videos=self._videos(record)))
        self._write(record)
        return record

    def _begin(self, plan: EvaluationPlan) -> PolicyEvaluation:
        begun = PolicyEvaluation(
            policy=plan.policy.name,
            kind=plan.policy.kind,
            settings=plan.settings(),
            versions=package_versions(),
        )
        return begun if self._folder is None else read_or_begin(self._folder / RECORD, begun)

    def _run(
        self, plan: EvaluationPlan, plans: Sequence[EpisodePlan], record: PolicyEvaluation
    ) -> PolicyEvaluation:
        """The record with the results of `plans`; whatever happens, what has ended is written."""
        with _recorder(self._rerun, plan) as recorder:
            runner = EpisodeRunner(
                plan.policy.acting,
                plan.simulator,
                plan.rollout,
                num_workers=self._num_workers,
                timeout_s=self._timeout_s,
                recorder=recorder,
            )
            return self._run_with(runner, plans, record, plan.simulator.fps)

    def _run_with(
        self,
        runner: EpisodeRunner,
        plans: Sequence[EpisodePlan],
        record: PolicyEvaluation,
        fps: float,
    ) -> PolicyEvaluation:
        ended: list[EpisodeResult] = []
        began = written = time.monotonic()

        def grown() -> PolicyEvaluation:
            latencies = {budget_name(b): ms for b, ms in runner.latencies_ms.items()}
            return summarized(
                replace(
                    record,
                    worker_deaths=record.worker_deaths + runner.worker_deaths,
                    worker_hangs=record.worker_hangs + runner.worker_hangs,
                    seconds=record.seconds + time.monotonic() - began,
                    latencies_ms=latencies | record.latencies_ms,
                    episodes=(*record.episodes, *ended),
                ),
                fps,
            )

        with (
            _stops_explained(self._folder),
            episode_bar(self._console, len(plans), "solved") as show,
            closing(runner.run(plans)) as results,
        ):
            try:
                for result in results:
                    ended.append(result)
                    show(_label(result), len(ended), sum(e.is_success for e in ended))
                    if time.monotonic() - written > WRITE_EVERY_S:
                        self._write(grown())
                        written = time.monotonic()
            finally:
                if ended:
                    self._write(grown())
        return grown()

    def _write(self, record: PolicyEvaluation) -> None:
        if self._folder is not None:
            write_record(self._folder / RECORD, record)

    def _film(self, task: str, budget: Budget, episode: int) -> Path | None:
        """Where the video of an episode goes, if it is to be filmed."""
        if self._folder is None or episode >= self._num_videos:
            return None
        return self._folder / _video_path(task, budget, episode)

    def _videos(self, record: PolicyEvaluation) -> tuple[EpisodeVideo, ...]:
        """The videos that exist, whichever run made them."""
        if self._folder is None:
            return ()
        paths = {e: _video_path(e.task, e.budget, e.episode) for e in record.episodes}
        return tuple(
            EpisodeVideo(e.task, e.budget, e.episode, path)
            for e, path in paths.items()
            if (self._folder / path).exists()
        )

    def _note_other_rate(self, plan: EvaluationPlan) -> None:
        trained_at, simulator = plan.policy.fps, plan.simulator
        if trained_at not in (None, simulator.fps):
            self._console.print(
                f"note: the policy was trained at {trained_at:g} steps a second, {simulator.name} "
                f"has {simulator.fps}",
                soft_wrap=True,
            )


@contextmanager
def _recorder(path: Path | None, plan: EvaluationPlan) -> Iterator[EpisodeRecorder | None]:
    """What writes a recording, if one was asked for."""
    if path is None:
        yield None
        return
    from oatkit.data.rerun_recording import rerun_recording

    with rerun_recording(path) as recording:
        yield EpisodeRecorder(recording, plan.policy)


def _label(result: EpisodeResult) -> str:
    """Task and budget of an episode; a flow expert has no budget."""
    has_tokens = result.tokens > 0
    return f"{result.task}, budget {budget_name(result.budget)}" if has_tokens else result.task


def _video_path(task: str, budget: Budget, episode: int) -> str:
    return f"videos/{task}-budget-{budget_name(budget)}-{episode:03d}.mp4"


def summarized(record: PolicyEvaluation, fps: float) -> PolicyEvaluation:
    """The record with its episodes in order, and the results of each budget.

    Args:
        record: Record whose episodes are summarized.
        fps: Steps a second of the simulator.
    """
    episodes = sorted(record.episodes, key=lambda e: (budget_order(e.budget), e.task, e.episode))
    budgets = [
        summarize(
            budget,
            [e for e in episodes if e.budget == budget],
            latency_ms=record.latencies_ms.get(budget_name(budget)),
            fps=fps,
        )
        for budget in dict.fromkeys(e.budget for e in episodes)
    ]
    return replace(record, episodes=tuple(episodes), budgets=tuple(budgets))


def first_episodes(record: PolicyEvaluation, episodes: int, fps: float) -> PolicyEvaluation:
    """The record of the first episodes of each task, where it has more.

    Args:
        record: Record of as many episodes or more.
        episodes: Number of episodes of each task and budget.
        fps: Steps a second of the simulator.
    """
    kept = tuple(e for e in record.episodes if e.episode < episodes)
    if len(kept) == len(record.episodes):
        return record
    return with_comparisons(summarized(replace(record, episodes=kept), fps))


@contextmanager
def _stops_explained(folder: Path | None) -> Iterator[None]:
    """Say how to go on when the work stops halfway."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is None:
            raise
        raise KeyboardInterrupt(f"stopped; {_kept(folder)}") from None
    except RemoteError as error:
        if folder is None:
            raise
        raise RemoteError(f"{error}; {_kept(folder)}") from error


def _kept(folder: Path) -> str:
    record = folder / RECORD
    if not record.exists():
        return "no episode was finished, the same command again begins anew"
    return f"finished episodes are kept in {record}, the same command again continues"
