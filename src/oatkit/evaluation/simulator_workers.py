"""Worker processes with simulators in them, which may die or hang and be started again.

    parent  -- orders for some of its episodes -->  worker
            <-- one report for each, in order --

All actions before the next query are sent at once, and the frames that the policy reads for it come
back: single steps cost no communication, and other frames are never rendered. Nothing here imports
torch, so that processes start fast.

Shape letters: N actions to execute, A action.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import ImageSize, Observation, Simulator, SimulatorKind
from oatkit.errors import OatkitError, unknown_name
from oatkit.evaluation.episode_video import Film, film
from oatkit.evaluation.worker_processes import END_AFTER_S, require_guard, starting
from oatkit.types.observation_keys import IMAGES, STATE

Frame = dict[str, NDArray[Any]]
"""What the policy reads of one moment, by LeRobot's keys."""


@dataclass(frozen=True)
class View:
    """What a policy reads of a simulator.

    Attributes:
        state_keys: Parts of the simulator's observation that are joined to the policy's state; none
            where the policy reads no state.
        cameras: Cameras that the policy sees, each with height and width of its images.
        history: Number of frames that the policy reads, the current one included.
    """

    state_keys: tuple[str, ...]
    cameras: dict[str, ImageSize]
    history: int


@dataclass(frozen=True)
class Begin:
    """Order to start an episode.

    Attributes:
        slot: Number of the episode's place in the worker.
        task: Name of the task.
        seed: Seed that the simulator is reset with.
    """

    slot: int
    task: str
    seed: int


@dataclass(frozen=True, eq=False)
class Play:
    """Order to execute actions until they, or the episode, end.

    Attributes:
        slot: Number of the episode's place in the worker.
        actions: (N, A), within the simulator's bounds.
    """

    slot: int
    actions: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Report:
    """What happened in an episode since the last report.

    Attributes:
        frames: The last frames, at most as many as the policy reads, the oldest first; empty where
            the episode is over.
        num_steps: Number of executed actions.
        is_over: Whether the episode has ended, with success or at the step limit.
        is_success: Whether the task is solved.
        score: The best score of these steps; None where the task has no score.
    """

    frames: tuple[Frame, ...] = ()
    num_steps: int = 0
    is_over: bool = False
    is_success: bool = False
    score: float | None = None


Order = Begin | Play | Film
Reports = list[Report | None]
"""One report for each order; None for a `Film`."""


class Worker:
    """A process that executes orders, as the parent sees it.

    Args:
        simulator: Simulator that runs in the process.
        view: What the policy reads of it.

    Attributes:
        sent_at: When orders were sent last, on the clock of `time.monotonic`.
    """

    def __init__(self, simulator: SimulatorKind, view: View) -> None:
        self._simulator = simulator
        self._view = view
        self.sent_at = time.monotonic()
        self.start()

    def start(self) -> None:
        """Start the process, after `end` a new one."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, self._simulator, self._view), daemon=True
        )
        with starting():
            self.process.start()
        theirs.close()

    def send(self, orders: Sequence[Order]) -> None:
        """Send orders; `receive` finds out where the worker died meanwhile."""
        self.sent_at = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(orders)

    def receive(self) -> Reports | None:
        """The reports, or None where the worker died; an error of the simulator is raised here."""
        try:
            answer: Reports | Exception = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(END_AFTER_S)
            require_guard(self.process.exitcode)
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.connection.close()
        self.process.terminate()
        self.process.join(END_AFTER_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def serve(connection: Connection, simulator: SimulatorKind, view: View) -> None:
    """Answer orders, as the worker process does until the parent closes the connection or dies."""
    slots: dict[int, Slot] = {}
    while True:
        try:
            orders: Sequence[Order] = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        answer: Reports | Exception
        try:
            answer = [_serve(order, slots, simulator, view) for order in orders]
        except (OatkitError, ValueError, RuntimeError, OSError, ImportError) as error:
            answer = error
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.send(answer)


def _serve(
    order: Order, slots: dict[int, Slot], simulator: SimulatorKind, view: View
) -> Report | None:
    if isinstance(order, Film):
        film(order, simulator)
        return None
    if isinstance(order, Begin):
        slot = slots.get(order.slot)
        if slot is None or slot.task != order.task:
            if slot is not None:
                slot.simulator.close()
            slots[order.slot] = Slot(order.task, simulator.make(order.task, view.cameras), view)
        return slots[order.slot].begin(order.seed)
    return slots[order.slot].play(order.actions)


class Slot:
    """A place for one episode at a time.

    Args:
        task: Name of the task.
        simulator: Simulator of that task.
        view: What the policy reads of it.
    """

    def __init__(self, task: str, simulator: Simulator, view: View) -> None:
        self.task = task
        self.simulator = simulator
        self._view = view

    def begin(self, seed: int) -> Report:
        """Start the episode of a seed."""
        return Report((self._read(self.simulator.reset(seed)),))

    def play(self, actions_NA: NDArray[np.float32]) -> Report:
        """Execute actions until they, or the episode, end."""
        frames: list[Frame] = []
        score: float | None = None
        for number, action_A in enumerate(actions_NA, start=1):
            result = self.simulator.step(action_A)
            if result.score is not None:
                score = result.score if score is None else max(score, result.score)
            if result.is_success or result.is_over:
                is_success = result.is_success
                return Report((), number, is_over=True, is_success=is_success, score=score)
            if len(actions_NA) - number < self._view.history:
                frames.append(self._read(result.observation))
        return Report(tuple(frames), len(actions_NA), score=score)

    def _read(self, observation: Observation) -> Frame:
        view = self._view
        frame: Frame = {}
        if view.state_keys:
            for key in view.state_keys:
                if key not in observation:
                    raise ValueError(unknown_name("part of the observation", key, observation))
            frame[STATE] = np.concatenate([observation[key] for key in view.state_keys])
        if view.cameras:
            images = self.simulator.render()
            frame |= {f"{IMAGES}{camera}": images[camera] for camera in view.cameras}
        return frame
