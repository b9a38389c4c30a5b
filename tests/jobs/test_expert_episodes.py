"""Episodes of the experts: what is recorded is what was seen, done and rendered."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.envs.metaworld import TASKS, MetaWorld, scripted_expert
from oatkit.envs.simulator import demonstration_seed
from tests.jobs.demonstrations import make


@pytest.mark.parametrize(("first", "task"), [(0, "reach"), (3, "door-close")])
def test_recorded_actions_replay_the_recorded_states_and_end_5_steps_after_success(
    demos: Path, first: int, task: str
) -> None:
    dataset = oatkit.open_dataset(demos)
    environment = MetaWorld(task)
    for attempt in range(3):
        episode = dataset[first + attempt]
        observation = environment.reset(demonstration_seed(0, attempt))
        states_TE = episode.column("observation.environment_state")
        successes = []
        for action, state in zip(episode.actions, states_TE, strict=True):
            np.testing.assert_array_equal(observation["observation.environment_state"], state)
            result = environment.step(action)
            observation = result.observation
            successes.append(result.is_success)
        assert successes.index(True) == len(episode) - 1 - 5


def test_a_recorded_action_is_the_experts_answer_to_the_recorded_state(
    demos: Path,
) -> None:
    for episode in oatkit.open_dataset(demos):
        name = next(name for name, text in TASKS.items() if text == episode.task)
        states_TE = episode.column("observation.environment_state")
        expected_TA = np.stack([scripted_expert(name)(state_E) for state_E in states_TE])
        np.testing.assert_array_equal(episode.actions, expected_TA)


def test_images(tmp_path: Path) -> None:
    images = {"images": True, "image_size": (64, 96), "shadows": False}
    root = make(tmp_path / "d", tasks=("door-close",), episodes=2, **images)
    dataset = oatkit.open_dataset(root)
    camera = dataset.cameras["corner2"]
    assert (camera.height, camera.width) == (64, 96)
    environment = MetaWorld("door-close", {"corner2": (64, 96)}, shadows=False)
    environment.reset(demonstration_seed(0, 1))
    episode = dataset[1]
    for action in episode.actions[:-1]:
        environment.step(action)
    images = episode.images("corner2", [0, len(episode) - 1])
    error = np.abs(images[1].astype(int) - environment.render()["corner2"])
    assert error.mean() < 6, "the last image is the one before the last action"
    assert np.abs(images[0].astype(int) - images[1]).mean() > error.mean()
    info = json.loads((root / "meta/info.json").read_text())
    assert info["features"]["observation.images.corner2"]["info"]["video.codec"] == "av1"


def test_failed_attempts_are_passed_over(tmp_path: Path) -> None:
    """The expert fails at the fifth goal of sweep-into, so the sixth takes its place."""
    dataset = oatkit.open_dataset(make(tmp_path / "d", tasks=("sweep-into",), episodes=5))
    environment = MetaWorld("sweep-into")
    for episode, attempt in zip(dataset, (0, 1, 2, 3, 5), strict=True):
        observation = environment.reset(demonstration_seed(0, attempt))
        np.testing.assert_array_equal(episode.state[0], observation["observation.state"])
        np.testing.assert_array_equal(
            episode.column("observation.environment_state")[0],
            observation["observation.environment_state"],
        )
