"""Episodes of a policy in a simulator: predict a chunk, execute its first part, query again.

Simulators run in worker processes and the policy in this one, for all episodes that wait at once.
An episode is a function of its task, its seed and the protocol, up to the rounding of sums in
batches of different size: every query draws from a generator of its own.

Shape letters: B episodes that wait, T step in the chunk, N executed steps, A action.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from oatkit.envs.simulator import STATE_KEY, SimulatorKind, evaluation_seed
from oatkit.errors import DecodeError, OatkitError, unknown_name
from oatkit.evaluation.executable_actions import executable
from oatkit.evaluation.simulator_workers import Begin, Film, Order, Play, Report, View, Worker
from oatkit.policies import Prediction
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.types import Budget, EpisodeResult, Sampling, Schedule

MAX_REPEATS = 3
"""How often an episode is begun anew when its worker dies or hangs; then it is no accident."""

TIMEOUT_S = 300.0
"""How long a worker may take for its orders: seconds as a rule, or a minute for videos."""

LATENCY_REPEATS = 5


class Policy(Protocol):
    """What acts; `LightPolicy` is one."""

    spec: ObservationSpec

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Any,
        schedule: Schedule | None,
        sampling: Sampling,
        generator: Any,
    ) -> Prediction:
        """Chunks for a batch with its history."""


@dataclass(frozen=True)
class Rollout:
    """The protocol of an episode.

    Attributes:
        execute: How many steps of a chunk are executed before the next query.
        seed: Decides goals and draws, the same for every policy and budget.
        sampling: How ids are chosen; `seed` above decides the random numbers.
        state_keys: Parts of the simulator's observation that are the policy's state.
        endpoints: Of the schedule to generate by; None for the policy's own.
    """

    execute: int
    seed: int = 0
    sampling: Sampling = Sampling()
    state_keys: tuple[str, ...] = ()
    endpoints: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Job:
    """An episode to run.

    Attributes:
        task: Which of the simulator.
        budget: Number of tokens to generate, "auto", or None for all.
        episode: Its number, from 0.
        film: Where to write a video of it, if at all.
    """

    task: str
    budget: Budget
    episode: int
    film: Path | None = None


@dataclass
class _Running:
    """An episode under way."""

    job: Job
    slot: int
    repeats: int = 0
    steps: int = 0
    is_success: bool = False
    score: float | None = None
    error: str | None = None
    calls: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    is_clipped: list[bool] = field(default_factory=list)

    def note(self, report: Report) -> None:
        self.steps += report.num_steps
        self.is_success = report.is_success
        if report.score is not None:
            self.score = report.score if self.score is None else max(self.score, report.score)

    def result(self, seed: int) -> EpisodeResult:
        return EpisodeResult(
            task=self.job.task,
            budget=self.job.budget,
            episode=self.job.episode,
            seed=seed,
            is_success=self.is_success,
            score=self.score,
            steps=self.steps,
            queries=len(self.calls),
            calls=fmean(self.calls or [0]),
            tokens=fmean(self.tokens or [0]),
            latency_ms=fmean(self.latencies_ms or [0.0]),
            clipped=fmean(self.is_clipped[: self.steps] or [0]),
            repeats=self.repeats,
            error=self.error,
        )


class Evaluation:
    """Runs episodes; iterate over `run` for their results in the order they end.

    Args:
        policy: What acts.
        simulator: Where.
        rollout: How.
        num_workers: Worker processes.
        num_slots: Episodes that a worker has under way.
        timeout_s: A worker that does not answer for so long hangs: it is killed, and then treated
            like one that died.

    Attributes:
        worker_deaths: Worker processes that died and were started again.
        worker_hangs: Worker processes that hung, were killed and started again.
        latencies_ms: Budget to the median time of a query for one observation alone, while the
            simulators wait; None where none gave a chunk.
    """

    def __init__(
        self,
        policy: Policy,
        simulator: SimulatorKind,
        rollout: Rollout,
        *,
        num_workers: int = 1,
        num_slots: int = 4,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        for name, value in (("workers", num_workers), ("execute", rollout.execute)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected 1 or more")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s is {timeout_s}, expected more than 0")
        self._policy = policy
        self._simulator = simulator
        self._rollout = rollout
        self._view = policy_view(policy.spec, simulator, rollout.state_keys)
        self._num_workers = num_workers
        self._num_slots = num_slots
        self._timeout_s = timeout_s
        self._budgets: tuple[Budget, ...] = ()
        self.worker_deaths = 0
        self.worker_hangs = 0
        self.latencies_ms: dict[Budget, float | None] = {}

    def run(self, jobs: Sequence[Job]) -> Generator[EpisodeResult, None, None]:
        """Run episodes; those of a task are best side by side, for a change makes simulators."""
        jobs = [replace(job, task=self._simulator.task_name(job.task)) for job in jobs]
        self._budgets = tuple(dict.fromkeys(job.budget for job in jobs))
        require_tasks(self._policy.spec, self._simulator, {job.task: None for job in jobs})
        waiting = deque(jobs)
        num_workers = min(self._num_workers, len(jobs))
        with _workers(num_workers, self._simulator, self._view) as workers:
            under_way: dict[Worker, list[_Running]] = {worker: [] for worker in workers}
            for slot in range(self._num_slots):
                for worker in workers:
                    if waiting:
                        under_way[worker].append(_Running(waiting.popleft(), slot))
            busy = list(workers)
            for worker, episodes in under_way.items():
                worker.send([self._begin(episode) for episode in episodes])
            for worker in busy:  # all wait for the first query, so that its time can be measured
                wait([worker.connection], self._time_left(worker))
            while busy:
                ready = self._ready(busy)
                finished, orders = self._advance(ready, under_way, waiting)
                for worker in ready:
                    if orders[worker]:
                        worker.send(orders[worker])
                    else:
                        busy.remove(worker)
                yield from finished

    def _ready(self, busy: Sequence[Worker]) -> list[Worker]:
        """Wait for workers that answered or died; else it is those that hang."""
        patience_s = min(self._time_left(worker) for worker in busy)
        answered = wait([worker.connection for worker in busy], patience_s)
        if answered:
            return [worker for worker in busy if worker.connection in answered]
        return [worker for worker in busy if self._time_left(worker) == 0]

    def _time_left(self, worker: Worker) -> float:
        return max(0.0, worker.sent_at + self._timeout_s - time.monotonic())

    def _begin(self, episode: _Running) -> Begin:
        return Begin(episode.slot, episode.job.task, self._seed(episode.job))

    def _seed(self, job: Job) -> int:
        return evaluation_seed(self._rollout.seed, job.episode)

    def _advance(
        self,
        ready: Sequence[Worker],
        under_way: dict[Worker, list[_Running]],
        waiting: deque[Job],
    ) -> tuple[list[EpisodeResult], dict[Worker, list[Order]]]:
        """Read the reports of some workers; give what ended and what they do next."""
        finished: list[EpisodeResult] = []
        orders: dict[Worker, list[Order]] = {}
        asking: list[tuple[_Running, Report]] = []
        for worker in ready:
            is_hung = not worker.connection.poll()
            reports = None if is_hung else worker.receive()
            if reports is None:
                under_way[worker] = [self._again(episode) for episode in under_way[worker]]
                self.worker_hangs += is_hung
                self.worker_deaths += not is_hung
                worker.end()
                worker.start()
                orders[worker] = [self._begin(episode) for episode in under_way[worker]]
                continue
            orders[worker] = []
            for episode, report in zip(under_way[worker], _of_episodes(reports), strict=True):
                episode.note(report)
                if report.frames is not None:
                    asking.append((episode, report))
        actions = self._decide(asking)
        for worker in ready:
            if orders[worker]:  # it begins anew
                continue
            going_on: list[_Running] = []
            for episode in under_way[worker]:
                if id(episode) in actions:
                    episode.actions.append(actions[id(episode)])
                    orders[worker].append(Play(episode.slot, actions[id(episode)]))
                    going_on.append(episode)
                    continue
                finished.append(episode.result(self._seed(episode.job)))
                orders[worker] += self._film(episode)
                if waiting:
                    fresh = _Running(waiting.popleft(), episode.slot)
                    orders[worker].append(self._begin(fresh))
                    going_on.append(fresh)
            under_way[worker] = going_on
        return finished, orders

    def _again(self, episode: _Running) -> _Running:
        if episode.repeats == MAX_REPEATS:
            raise OatkitError(
                f"the worker process of {episode.job.task}, seed {self._seed(episode.job)}, died "
                f"or hung {MAX_REPEATS + 1} times (killed, out of memory, or slower than "
                f"{self._timeout_s:g} s?)"
            )
        return _Running(episode.job, episode.slot, episode.repeats + 1)

    def _film(self, episode: _Running) -> list[Order]:
        job = episode.job
        if job.film is None or not episode.actions:
            return []
        actions_NA = np.concatenate(episode.actions)[: episode.steps]
        return [Film(job.task, self._seed(job), actions_NA, self._simulator.fps, job.film)]

    def _decide(self, asking: Sequence[tuple[_Running, Report]]) -> dict[int, NDArray[np.float32]]:
        """Actions to execute for each episode, by its `id`; none where there is no chunk."""
        decided = {}
        if asking and not self.latencies_ms:
            self.latencies_ms = {
                budget: self._latency(asking[0], budget) for budget in self._budgets
            }
        for budget in dict.fromkeys(episode.job.budget for episode, _ in asking):
            rows = [(e, r) for e, r in asking if e.job.budget == budget]
            try:
                predictions = [(rows, self._predict(rows))]
            except DecodeError:  # which row it was is found by asking for each
                predictions = []
                for row in rows:
                    try:
                        predictions.append(([row], self._predict([row])))
                    except DecodeError as error:
                        row[0].error = str(error)
            for own, found in predictions:
                for index, (episode, _) in enumerate(own):
                    episode.calls.append(int(found.calls[index]))
                    episode.tokens.append(int(found.budget[index]))
                    episode.latencies_ms.append(found.elapsed_ms)
                    decided[id(episode)] = self._executable(episode, found.chunk[index])
        return decided

    def _predict(self, rows: Sequence[tuple[_Running, Report]]) -> Prediction:
        observation: dict[str, Any] = _stacked([report for _, report in rows])
        self._require_state(observation)
        jobs = [episode.job for episode, _ in rows]
        if needs_task(self._policy.spec, self._simulator):
            observation["task"] = [self._simulator.tasks[job.task] for job in jobs]
        rollout = self._rollout
        return self._policy.predict_action_chunk(
            observation,
            budget=jobs[0].budget,
            schedule=None if rollout.endpoints is None else Schedule(rollout.endpoints),
            sampling=rollout.sampling,
            generator=[
                query_generator(rollout.seed, episode.job, len(episode.calls))
                for episode, _ in rows
            ],
        )

    def _require_state(self, observation: Mapping[str, Any]) -> None:
        keys, wanted = self._view.state_keys, self._policy.spec.state_dim
        if keys and observation[STATE_KEY].shape[-1] != wanted:
            raise ValueError(
                f"the policy reads a state of {wanted}, {' + '.join(keys)} of "
                f"{self._simulator.name} has {observation[STATE_KEY].shape[-1]}: name what it was "
                "trained on with --state-key"
            )

    def _latency(self, row: tuple[_Running, Report], budget: Budget) -> float | None:
        episode, report = row
        asked = (replace(episode, job=replace(episode.job, budget=budget)), report)
        times = []
        for _ in range(LATENCY_REPEATS + 1):  # the first warms up
            try:
                times.append(self._predict([asked]).elapsed_ms)
            except DecodeError:
                continue
        return float(np.median(times[1:])) if len(times) > 1 else None

    def _executable(self, episode: _Running, chunk_TA: Any) -> NDArray[np.float32]:
        """The first part of a chunk, within the simulator's bounds."""
        job = episode.job
        what = f"the chunk for {job.task}, episode {job.episode}, step {episode.steps}"
        actions_NA, is_clipped = executable(
            chunk_TA, self._rollout.execute, *self._simulator.bounds, what
        )
        episode.is_clipped += is_clipped
        return actions_NA


@contextmanager
def _workers(number: int, simulator: SimulatorKind, view: View) -> Iterator[list[Worker]]:
    workers: list[Worker] = []
    try:
        workers += [Worker(simulator, view) for _ in range(number)]
        yield workers
    finally:
        for worker in workers:
            worker.end()


def _of_episodes(reports: Sequence[Report | None]) -> list[Report]:
    return [report for report in reports if report is not None]


def _stacked(reports: Sequence[Report]) -> dict[str, NDArray[Any]]:
    """Frames of several episodes as a batch with its history."""
    frames = [report.frames for report in reports if report.frames is not None]
    return {key: np.stack([frame[key] for frame in frames]) for key in frames[0]}


def query_generator(seed: int, job: Job, query: int) -> torch.Generator:
    """The draws of one query: the same at every budget, whose tokens so are nested."""
    return seeded_generator(seed, crc32(job.task.encode()), job.episode, query)


def seeded_generator(*entropy: int) -> torch.Generator:
    """A generator that some numbers decide, all of them alike."""
    state = np.random.SeedSequence(entropy).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(state[0]) << 31 | int(state[1]) >> 1)


def policy_view(
    spec: ObservationSpec, simulator: SimulatorKind, state_keys: tuple[str, ...]
) -> View:
    """What a policy reads of a simulator; a camera that the simulator lacks is an error."""
    keys = state_keys if spec.state_dim else ()
    return View(keys, simulator.checked_cameras(spec.cameras), spec.history)


def needs_task(spec: ObservationSpec, simulator: SimulatorKind) -> bool:
    """Whether the policy is told the task; where both have only one it goes without saying."""
    return len(simulator.tasks) > 1 or len(spec.tasks) > 1


def require_tasks(spec: ObservationSpec, simulator: SimulatorKind, tasks: Iterable[str]) -> None:
    """Refuse a task that the simulator does not have or that the policy was not trained on."""
    for task in tasks:
        instruction = simulator.tasks[simulator.task_name(task)]
        if needs_task(spec, simulator) and spec.tasks and instruction not in spec.tasks:
            raise ValueError(
                f"the policy was not trained on {task}: "
                + unknown_name("instruction", instruction, spec.tasks)
            )
