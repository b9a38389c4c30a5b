"""Runs episodes of a policy in a simulator: predict a chunk, execute its first part, query again.

Simulators run in worker processes; the policy runs in this process and answers all waiting episodes
in one batch.
An episode is a function of its task, its seed and the protocol, up to the rounding of sums in
batches of different size.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait

from oatkit.envs.simulator import SimulatorKind
from oatkit.errors import OatkitError
from oatkit.evaluation.action_plan import ActionPlan
from oatkit.evaluation.episode_recording import EpisodeRecorder
from oatkit.evaluation.episode_video import Film
from oatkit.evaluation.policy_queries import PolicyQueries
from oatkit.evaluation.policy_view import require_tasks
from oatkit.evaluation.queried_policy import QueriedPolicy
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.evaluation.running_episode import RunningEpisode
from oatkit.evaluation.simulator_workers import Begin, Frame, Order, Play, Report, View, Worker
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.types import Budget, EpisodeResult

MAX_REPEATS = 3
"""How often an episode is begun again when its worker dies or hangs, before that is an error."""

TIMEOUT_S = 300.0
"""Seconds that a worker may take for its orders; most take seconds, videos may take a minute."""


class EpisodeRunner:
    """Runs episodes; iterate over `run` for their results in the order they end.

    Args:
        policy: What acts.
        simulator: Simulator that the policy acts in.
        rollout: Settings of an episode: execution, sampling, state keys, schedule.
        num_workers: Number of worker processes.
        num_slots: Number of episodes that a worker has under way.
        timeout_s: Seconds after which a worker that does not answer is killed and treated like one
            that died.
        recorder: Takes in what episodes read, predict and do; None for no recording.
        is_alone: Whether every episode is predicted alone and no time is measured, so that its
            result depends on nothing else that runs.

    Attributes:
        worker_deaths: Number of worker processes that died and were started again.
        worker_hangs: Number of worker processes that were killed because they did not answer.
        latencies_ms: Median query time in ms for a single observation, by budget, measured while
            the simulators are idle; None if no query produced a chunk.
    """

    def __init__(
        self,
        policy: QueriedPolicy,
        simulator: SimulatorKind,
        rollout: Rollout,
        *,
        num_workers: int = 1,
        num_slots: int = 4,
        timeout_s: float = TIMEOUT_S,
        recorder: EpisodeRecorder | None = None,
        is_alone: bool = False,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"workers is {num_workers}, expected 1 or more")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s is {timeout_s}, expected more than 0")
        self._spec = policy.spec
        self._simulator = simulator
        self._rollout = rollout
        self._queries = PolicyQueries(policy, simulator, rollout, recorder, is_batched=not is_alone)
        self._is_alone = is_alone
        self._recorder = recorder
        self._num_workers = num_workers
        self._num_slots = num_slots
        self._timeout_s = timeout_s
        self._budgets: tuple[Budget, ...] = ()
        self.worker_deaths = 0
        self.worker_hangs = 0
        self.latencies_ms: dict[Budget, float | None] = {}

    def run(self, plans: Sequence[EpisodePlan]) -> Generator[EpisodeResult, None, None]:
        """Run episodes. Group the plans by task: every change of task creates new simulators."""
        plans = [replace(plan, task=self._simulator.task_name(plan.task)) for plan in plans]
        self._budgets = tuple(dict.fromkeys(plan.budget for plan in plans))
        require_tasks(self._spec, self._simulator, {plan.task: None for plan in plans})
        waiting = deque(plans)
        num_workers = min(self._num_workers, len(plans))
        with _workers(num_workers, self._simulator, self._queries.view) as workers:
            under_way: dict[Worker, list[RunningEpisode]] = {worker: [] for worker in workers}
            for slot in range(self._num_slots):
                for worker in workers:
                    if waiting:
                        under_way[worker].append(self._new(waiting.popleft(), slot))
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
        """Returns the workers that answered or died; if none did before the timeout, those that
        timed out."""
        patience_s = min(self._time_left(worker) for worker in busy)
        answered = wait([worker.connection for worker in busy], patience_s)
        if answered:
            return [worker for worker in busy if worker.connection in answered]
        return [worker for worker in busy if self._time_left(worker) == 0]

    def _time_left(self, worker: Worker) -> float:
        return max(0.0, worker.sent_at + self._timeout_s - time.monotonic())

    def _advance(
        self,
        ready: Sequence[Worker],
        under_way: dict[Worker, list[RunningEpisode]],
        waiting: deque[EpisodePlan],
    ) -> tuple[list[EpisodeResult], dict[Worker, list[Order]]]:
        """Read the reports of some workers; returns the finished episodes and the next orders."""
        orders: dict[Worker, list[Order]] = {}
        asking: list[RunningEpisode] = []
        for worker in ready:
            is_hung = not worker.connection.poll()
            reports = None if is_hung else worker.receive()
            if reports is None:
                under_way[worker] = [self._again(episode) for episode in under_way[worker]]
                self._restart(worker, is_hung=is_hung)
                orders[worker] = [self._begin(episode) for episode in under_way[worker]]
                continue
            orders[worker] = []
            for episode, report in zip(under_way[worker], _of_episodes(reports), strict=True):
                episode.add_report(report)
            asking += [episode for episode in under_way[worker] if not episode.is_over]
        if asking and not (self.latencies_ms or self._is_alone):
            self.latencies_ms = self._queries.latencies_ms(asking, self._budgets)
        self._queries.ask(asking)
        finished: list[EpisodeResult] = []
        for worker in ready:
            if orders[worker]:  # its episodes begin again
                continue
            going_on: list[RunningEpisode] = []
            for episode in under_way[worker]:
                if not episode.is_over and episode.error is None:
                    orders[worker].append(Play(episode.slot, episode.actions[-1]))
                    going_on.append(episode)
                    continue
                finished.append(episode.result(self._rollout))
                if self._recorder is not None:
                    self._recorder.add_end(episode)
                orders[worker] += self._film(episode)
                if waiting:
                    fresh = self._new(waiting.popleft(), episode.slot)
                    orders[worker].append(self._begin(fresh))
                    going_on.append(fresh)
            under_way[worker] = going_on
        return finished, orders

    def _new(self, plan: EpisodePlan, slot: int, repeats: int = 0) -> RunningEpisode:
        history: FrameHistory[Frame] = FrameHistory(self._queries.view.history)
        upcoming = ActionPlan(self._rollout.execution, self._rollout.action_scale)
        return RunningEpisode(plan, slot, history, upcoming, repeats)

    def _begin(self, episode: RunningEpisode) -> Begin:
        goal_seed = self._rollout.goal_seed(episode.plan)
        return Begin(episode.slot, episode.plan.task, goal_seed)

    def _restart(self, worker: Worker, *, is_hung: bool) -> None:
        self.worker_hangs += is_hung
        self.worker_deaths += not is_hung
        worker.end()
        worker.start()

    def _again(self, episode: RunningEpisode) -> RunningEpisode:
        plan = episode.plan
        if episode.repeats == MAX_REPEATS:
            raise OatkitError(
                f"the worker process of {plan.task}, seed {self._rollout.goal_seed(plan)}, died "
                f"or hung {MAX_REPEATS + 1} times (killed, out of memory, or slower than "
                f"{self._timeout_s:g} s?)"
            )
        return self._new(plan, episode.slot, episode.repeats + 1)

    def _film(self, episode: RunningEpisode) -> list[Order]:
        plan = episode.plan
        if plan.video_path is None or not episode.actions:
            return []
        goal_seed, fps = self._rollout.goal_seed(plan), self._simulator.fps
        return [Film(plan.task, goal_seed, episode.executed, fps, plan.video_path)]


@contextmanager
def _workers(number: int, simulator: SimulatorKind, view: View) -> Iterator[list[Worker]]:
    """Worker processes that are ended with the block."""
    workers: list[Worker] = []
    try:
        workers += [Worker(simulator, view) for _ in range(number)]
        yield workers
    finally:
        for worker in workers:
            worker.end()


def _of_episodes(reports: Sequence[Report | None]) -> list[Report]:
    """The reports of episodes; orders to film are answered by None."""
    return [report for report in reports if report is not None]
