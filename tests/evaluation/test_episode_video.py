from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from oatkit.data.video import read_frames
from oatkit.evaluation.episode_video import Film, film
from oatkit.evaluation.rollout import EpisodePlan
from tests.evaluation.plane import PLANE, Plane
from tests.evaluation.plane_episodes import run


def test_a_film_shows_the_episode(tmp_path: Path) -> None:
    plan = EpisodePlan("near", 4, 0, video_path=tmp_path / "films" / "a.mp4")
    found = run([plan])["near", 4, 0]
    assert asdict(found) == asdict(run([replace(plan, video_path=None)])["near", 4, 0])
    last = found.steps / PLANE.fps
    frames = read_frames(tmp_path / "films" / "a.mp4", [0.0, last], fps=PLANE.fps)
    assert frames.shape == (2, 240, 240, 3)
    assert [int(frame.mean().round()) for frame in frames] == pytest.approx([0, found.steps], abs=3)


def test_fast_simulators_show_every_second_step(tmp_path: Path) -> None:
    kind = replace(PLANE, fps=40)
    actions = np.zeros((9, 2), np.float32)
    film(Film("near", 1, actions, kind.fps, tmp_path / "a.mp4"), kind)
    frames = read_frames(tmp_path / "a.mp4", np.arange(6) / 20, fps=20)
    shades = [float(frame.mean()) for frame in frames]
    assert shades == pytest.approx([0, 2, 4, 6, 8, 9], abs=2)
    assert shades == sorted(shades)


def test_images_without_shadows_are_filmed_where_there_are_any(tmp_path: Path) -> None:
    made = []

    def without(task: str, cameras: dict[str, tuple[int, int]]) -> Plane:
        made.append(cameras)
        return Plane(task, cameras)

    kind = replace(PLANE, make_without_shadows=without)
    film(Film("near", 1, np.zeros((2, 2), np.float32), kind.fps, tmp_path / "a.mp4"), kind)
    assert made == [{"top": (240, 240)}]
