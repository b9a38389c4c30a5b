"""Worker processes with simulators in them, which may die or hang and be started again.

    parent  -- orders for some of its episodes -->  worker
            <-- one report for each, in order --

A whole chunk goes out and the frames before the next query come back, so that a simulator's steps
cost no talk. Only frames that the policy reads are rendered.

Shape letters: N actions to execute, A action, S frame of the history.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import STATE_KEY, ImageSize, Observation, Simulator, SimulatorKind
from oatkit.errors import OatkitError, unknown_name
from oatkit.storage.atomic_write import atomic_write

FILM_SIZE = (240, 240)
FILM_FPS = 20
END_AFTER_S = 5.0


@dataclass(frozen=True)
class View:
    """What a policy reads of a simulator.

    Attributes:
        state_keys: Parts of its observation that are joined to the policy's state; none where the
            policy reads no state.
        cameras: Cameras that the policy sees, each with height and width of its images.
        history: Number of frames that the policy reads, the current one included.
    """

    state_keys: tuple[str, ...]
    cameras: dict[str, ImageSize]
    history: int


@dataclass(frozen=True)
class Begin:
    """Start an episode in a slot, which from then on has a simulator of that task."""

    slot: int
    task: str
    seed: int


@dataclass(frozen=True, eq=False)
class Play:
    """Execute actions (N, A) until they, or the episode, end."""

    slot: int
    actions: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Film:
    """Play an episode again for the camera, so that filming changes nothing."""

    task: str
    seed: int
    actions: NDArray[np.float32]
    fps: int
    path: Path


@dataclass(frozen=True, eq=False)
class Report:
    """How an episode stands.

    Attributes:
        frames: The policy's keys to the last frames, (S, ...); None where the episode has ended.
        num_steps: That were executed.
        is_success: Whether it is solved.
        score: The best of these steps, if there is one.
    """

    frames: dict[str, NDArray[Any]] | None
    num_steps: int = 0
    is_success: bool = False
    score: float | None = None


Order = Begin | Play | Film
Reports = list[Report | None]
"""None answers a `Film`."""


class Worker:
    """A process that serves orders; the parent's handle on it.

    Args:
        simulator: Which.
        view: What the policy reads.

    Attributes:
        sent_at: When it last was given orders, on the clock of `time.monotonic`.
    """

    def __init__(self, simulator: SimulatorKind, view: View) -> None:
        self._simulator = simulator
        self._view = view
        self.sent_at = time.monotonic()
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, self._simulator, self._view), daemon=True
        )
        with ctrl_c_ignored():
            self.process.start()
        theirs.close()

    def send(self, orders: Sequence[Order]) -> None:
        """Hand out orders; a worker that died meanwhile is noticed by `receive`."""
        self.sent_at = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(orders)

    def receive(self) -> Reports | None:
        """The reports, or None where the worker died; an error it can name is raised here."""
        try:
            answer: Reports | Exception = self.connection.recv()
        except (EOFError, OSError):
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


@contextmanager
def ctrl_c_ignored() -> Iterator[None]:
    """Processes that start meanwhile ignore it for good: their parent decides what it means."""
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def serve(connection: Connection, simulator: SimulatorKind, view: View) -> None:
    """The worker's side: answer orders until the parent closes its end, or is gone."""
    slots: dict[int, Slot] = {}
    while True:
        try:
            orders: Sequence[Order] = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        answer: Reports | Exception
        try:
            answer = [_serve(order, slots, simulator, view) for order in orders]
        except (OatkitError, ValueError, RuntimeError, OSError) as error:
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
    """A place for one episode at a time."""

    def __init__(self, task: str, simulator: Simulator, view: View) -> None:
        self.task = task
        self.simulator = simulator
        self._view = view
        self._frames: list[dict[str, NDArray[Any]]] = []

    def begin(self, seed: int) -> Report:
        first = self._read(self.simulator.reset(seed))
        self._frames = [first] * self._view.history
        return Report(self._stacked())

    def play(self, actions_NA: NDArray[np.float32]) -> Report:
        score: float | None = None
        for number, action_A in enumerate(actions_NA, start=1):
            result = self.simulator.step(action_A)
            if result.score is not None:
                score = result.score if score is None else max(score, result.score)
            if result.is_success or result.is_over:
                return Report(None, number, result.is_success, score)
            if len(actions_NA) - number < self._view.history:
                self._frames = [*self._frames[1:], self._read(result.observation)]
        return Report(self._stacked(), len(actions_NA), score=score)

    def _read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        view = self._view
        frame: dict[str, NDArray[Any]] = {}
        if view.state_keys:
            for key in view.state_keys:
                if key not in observation:
                    raise ValueError(unknown_name("part of the observation", key, observation))
            frame[STATE_KEY] = np.concatenate([observation[key] for key in view.state_keys])
        if view.cameras:
            images = self.simulator.render()
            frame |= {f"observation.images.{camera}": images[camera] for camera in view.cameras}
        return frame

    def _stacked(self) -> dict[str, NDArray[Any]]:
        return {key: np.stack([frame[key] for frame in self._frames]) for key in self._frames[0]}


def film(order: Film, kind: SimulatorKind) -> None:
    """Write an mp4 of the simulator's first camera that browsers play."""
    from oatkit.data.video import VideoWriter

    height, width = FILM_SIZE
    every = max(1, round(order.fps / FILM_FPS))
    camera = next(iter(kind.cameras))
    make = kind.make_without_shadows or kind.make
    simulator = make(order.task, {camera: FILM_SIZE})
    simulator.reset(order.seed)
    order.path.parent.mkdir(parents=True, exist_ok=True)
    fps = round(order.fps / every)
    with (
        atomic_write(order.path) as aside,
        VideoWriter(aside, fps=fps, height=height, width=width, codec="h264") as video,
    ):
        for step, action_A in enumerate(order.actions):
            if step % every == 0:
                video.add(simulator.render()[camera])
            simulator.step(action_A)
        video.add(simulator.render()[camera])
    simulator.close()
