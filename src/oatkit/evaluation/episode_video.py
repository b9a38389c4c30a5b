"""Videos of episodes, made by playing their actions again so that filming changes nothing.

Shape letters: N executed actions, A action.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import SimulatorKind
from oatkit.storage.atomic_write import atomic_write

VIDEO_SIZE = (240, 240)
VIDEO_FPS = 20
"""Frames a second of a video, nearly: a simulator that is faster shows every second step, ..."""


@dataclass(frozen=True, eq=False)
class Film:
    """Order to film an episode.

    Attributes:
        task: Name of the task.
        seed: Seed that the simulator is reset with.
        actions: Actions that were executed, (N, A).
        fps: Steps a second of the simulator.
        path: File to write.
    """

    task: str
    seed: int
    actions: NDArray[np.float32]
    fps: int
    path: Path


def film(order: Film, kind: SimulatorKind) -> None:
    """Write an mp4 that browsers play, of the simulator's first camera."""
    from oatkit.data.video import VideoWriter

    height, width = VIDEO_SIZE
    every = max(1, round(order.fps / VIDEO_FPS))
    camera = next(iter(kind.cameras))
    make = kind.make_without_shadows or kind.make
    simulator = make(order.task, {camera: VIDEO_SIZE})
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
