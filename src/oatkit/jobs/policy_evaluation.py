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

from rich.console import Console

from oatkit.envs.simulator import SimulatorKind
from oatkit.evaluation.episode_runner import TIMEOUT_S, EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan
from oatkit.evaluation.success_statistics import summarize
from oatkit.jobs.episode_bar import episode_bar
from oatkit.jobs.evaluation_comparison import with_comparisons
from oatkit.jobs.evaluation_plan import EvaluationPlan, make_rollout, plan_evaluation
from oatkit.nn.device import Device, describe_device
from oatkit.nn.weight_loading import Dtype
from oatkit.policies import Policy
from oatkit.policies.policy import Head
from oatkit.policies.policy_table import choose_decoder, open_policy
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.tokenizers.fast import Decoding
from oatkit.types import (
    Budget,
    EpisodeResult,
    EpisodeVideo,
    ExecuteSteps,
    Execution,
    PolicyEvaluation,
    Sampling,
    Schedule,
    budget_name,
    budget_order,
)

RECORD = "evaluation.json"
WRITE_EVERY_S = 5.0


def evaluate(
    policy: Policy | str | os.PathLike[str],
    simulator: str | SimulatorKind = "metaworld",
    *,
    tasks: Sequence[str] = (),
    episodes: int = 50,
    budgets: Sequence[Budget] = (None,),
    execute: ExecuteSteps = None,
    blend: float | None = None,
    delay: int = 0,
    draws: int = 1,
    head: Head | None = None,
    decoding: Decoding | None = None,
    schedule: Schedule | None = None,
    sampling: Sampling = Sampling(seed=0),
    state_keys: Sequence[str] = (),
    shadows: bool = True,
    out: str | os.PathLike[str] | None = None,
    videos: int = 0,
    workers: int | None = None,
    timeout_s: float = TIMEOUT_S,
    device: Device = "auto",
    dtype: Dtype | None = None,
    command: str = "",
    show_progress: bool = False,
) -> PolicyEvaluation:
    """Run a policy in a simulator and count its successes; the same call again goes on in `out`.

    Args:
        policy: A policy, or the folder or hub id of one.
        simulator: Name of the simulator, or a simulator of your own.
        tasks: Task names; those that the policy was trained on by default.
        episodes: Number of episodes of each task and budget, on the same seeds.
        budgets: How many tokens to generate: numbers, "auto", or None for all.
        execute: Steps of a chunk to execute, or "auto", see `Execution.steps`; half by default.
        blend: Decay by which actions are averaged with those of older chunks; None for no average.
        delay: Steps that a chunk comes late; the older one goes on meanwhile.
        draws: Chunks to generate for an observation, of which the one nearest to the plan is taken.
        head: What acts of a co-trained policy: its flow expert by default, or its tokens.
        decoding: What `fast` does with sequences that are no chunk; as trained by default.
        schedule: Generation schedule; the policy's own by default.
        sampling: Rules by which ids are chosen. Its seed (0 where it has none) decides goals too.
        state_keys: Parts of the observation that are the policy's state; as trained by default.
        shadows: Whether images have shadows, as those of training had (metaworld, robosuite).
        out: Folder of the record and the videos; None to keep the record in memory.
        videos: Number of episodes of each task and budget to film, of those that are run now.
        workers: Number of simulator processes; one per core by default.
        timeout_s: Seconds after which a silent simulator process is killed and started again.
        device: Where a policy that is opened here runs, or a given one if named; `resolve_device`.
        dtype: Type of the weights of a policy that is opened here; as trained by default.
        command: What the record says was typed.
        show_progress: Whether to show a progress bar.
    """
    folder = _checked_folder(out, episodes, videos, workers, timeout_s)
    opened = choose_decoder(open_policy(policy, device, dtype), head, decoding)
    execution = Execution(execute, blend, delay, draws)
    rollout = make_rollout(opened, execution, sampling, state_keys, schedule)
    plan = plan_evaluation(opened, simulator, rollout, tasks, budgets or (None,), shadows=shadows)
    run = _Run(plan, folder, workers or os.cpu_count() or 1, timeout_s, show_progress)
    return run.finish(opened.kind if opened is policy else str(policy), command, episodes, videos)


def _checked_folder(
    out: str | os.PathLike[str] | None,
    episodes: int,
    videos: int,
    workers: int | None,
    timeout_s: float,
) -> Path | None:
    """The folder of an evaluation whose numbers make sense."""
    for name, value in (("episodes", episodes), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, expected 1 or more")
    if videos < 0:
        raise ValueError(f"videos is {videos}, expected 0 or more")
    if not timeout_s > 0:
        raise ValueError(f"timeout_s is {timeout_s:g}, expected more than 0")
    if videos and out is None:
        raise ValueError("videos need a folder: name one as `out`")
    if videos:
        import oatkit.data.video  # noqa: F401  says now what it lacks
    return None if out is None else Path(out)


class _Run:
    """The episodes of a plan that a record lacks."""

    def __init__(
        self,
        plan: EvaluationPlan,
        folder: Path | None,
        num_workers: int,
        timeout_s: float,
        show_progress: bool,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._console = Console(highlight=False, quiet=not show_progress)
        self._runner = EpisodeRunner(
            plan.policy,
            plan.simulator,
            plan.rollout,
            num_workers=num_workers,
            timeout_s=timeout_s,
        )

    def finish(self, name: str, command: str, episodes: int, videos: int) -> PolicyEvaluation:
        """Run what the record lacks; returns the record with its comparisons."""
        record = replace(self._begin(name), command=command)
        done = {(e.task, e.budget, e.episode) for e in record.episodes}
        plans = [
            EpisodePlan(task, budget, episode, self._film(task, budget, episode, videos))
            for task in self._plan.tasks
            for budget in self._plan.budgets
            for episode in range(episodes)
            if (task, budget, episode) not in done
        ]
        if record.episodes:
            self._console.print(f"{len(record.episodes)} episodes were finished before")
        if plans:
            self._note_other_rate()
            device = describe_device(self._plan.policy.device)
            record = self._run(plans, replace(record, device=device))
        record = with_comparisons(replace(record, videos=self._videos(record)))
        self._write(record)
        return record

    def _begin(self, name: str) -> PolicyEvaluation:
        begun = PolicyEvaluation(
            policy=name,
            kind=self._plan.policy.tokenizer.kind,
            settings=self._plan.settings(),
            versions=package_versions(),
        )
        return begun if self._folder is None else read_or_begin(self._folder / RECORD, begun)

    def _run(self, plans: Sequence[EpisodePlan], record: PolicyEvaluation) -> PolicyEvaluation:
        """The record with the results of `plans`; whatever happens, what has ended is written."""
        runner = self._runner
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
                self._plan.simulator.fps,
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

    def _film(self, task: str, budget: Budget, episode: int, videos: int) -> Path | None:
        """Where the video of an episode goes, if it is to be filmed."""
        if self._folder is None or episode >= videos:
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

    def _note_other_rate(self) -> None:
        trained_at = self._plan.policy.extras.get("data", {}).get("fps")
        simulator = self._plan.simulator
        if trained_at not in (None, simulator.fps):
            self._console.print(
                f"note: the policy was trained at {trained_at:g} steps a second, {simulator.name} "
                f"has {simulator.fps}",
                soft_wrap=True,
            )


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


@contextmanager
def _stops_explained(folder: Path | None) -> Iterator[None]:
    """Say how to go on when the work stops halfway."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is None:
            raise
        raise KeyboardInterrupt(
            f"stopped; finished episodes are kept in {folder / RECORD}, the same command again "
            "continues"
        ) from None
