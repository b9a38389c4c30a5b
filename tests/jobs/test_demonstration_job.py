"""What is asked of demonstrations: what decides their data, and wrong wishes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.envs.metaworld import METAWORLD, TASKS, scripted_expert
from oatkit.jobs import demonstration_job as job
from oatkit.jobs.metaworld_demonstrations import Demonstrations
from tests.jobs.demonstrations import make


def test_seeds_and_noise_change_the_data(demos: Path, tmp_path: Path) -> None:
    plain = oatkit.open_dataset(demos)
    seeded = oatkit.open_dataset(make(tmp_path / "seeded", seed=1))
    noisy = oatkit.open_dataset(make(tmp_path / "noisy", noise=0.2))
    assert len({plain.fingerprint, seeded.fingerprint, noisy.fingerprint}) == 3
    first = "observation.environment_state"
    np.testing.assert_array_equal(noisy[0].column(first)[0], plain[0].column(first)[0])
    jitter = (
        np.diff(noisy[0].actions[:10], axis=0).std(),
        np.diff(plain[0].actions[:10], axis=0).std(),
    )
    assert jitter[0] > 2 * jitter[1]
    assert np.abs(noisy.action_statistics().max).max() <= 1


def test_clean_labels_are_the_experts_actions_in_the_noisy_states(tmp_path: Path) -> None:
    """The states are those of the noisy episode; the actions are what the expert does in them."""
    noisy = oatkit.open_dataset(make(tmp_path / "noisy", noise=0.2))
    clean = oatkit.open_dataset(make(tmp_path / "clean", noise=0.2, clean_labels=True))
    for noisy_episode, episode in zip(noisy, clean, strict=True):
        states = episode.column("observation.environment_state")
        np.testing.assert_array_equal(states, noisy_episode.column("observation.environment_state"))
        task = next(name for name, text in TASKS.items() if text == episode.task)
        expert = scripted_expert(task)
        wanted = np.stack([expert(state) for state in states]).clip(-1, 1)
        np.testing.assert_allclose(episode.actions, wanted, atol=1e-6)
        assert np.abs(episode.actions - noisy_episode.actions).max() > 0.1


def test_under_a_push_the_experts_answer_is_recorded(tmp_path: Path) -> None:
    """The states go astray and come back; the labels are the expert's, push or not."""
    plain = oatkit.open_dataset(make(tmp_path / "plain"))
    pushed = oatkit.open_dataset(make(tmp_path / "pushed", pushes=3))
    assert plain.fingerprint != pushed.fingerprint
    key, astray = "observation.environment_state", 0.0
    for episode in pushed:
        states = episode.column(key)
        task = next(name for name, text in TASKS.items() if text == episode.task)
        wanted = np.stack([scripted_expert(task)(state) for state in states])
        np.testing.assert_allclose(episode.actions, wanted, atol=1e-6)
        own = next(e for e in plain if np.array_equal(e.column(key)[0], states[0]))
        length = min(len(own), len(episode))
        astray = max(astray, np.abs(own.column(key)[:length, :3] - states[:length, :3]).max())
    assert astray > 0.02  # meters between the hands


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("reech",)}, r"unknown metaworld task 'reech'; known, closest first: reach"),
        ({"tasks": ()}, "expected one or more, each once"),
        ({"tasks": ("push", "push-v3")}, r"tasks are \[push, push\], expected one or more"),
        ({"episodes": 0}, "episodes is 0, expected 1 or more"),
        ({"workers": 0}, "workers is 0, expected 1 or more"),
        ({"noise": -0.1}, "noise is -0.1, expected a finite number of 0 or more"),
        ({"clean_labels": True}, "clean_labels needs noise"),
        ({"pushes": -1}, "pushes is -1, expected 0 or more"),
        ({"seed": -1}, "the seed is -1"),
        ({"images": True, "image_size": (63, 64)}, r"image_size is \(63, 64\), expected two even"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "d", **options)
    assert list(tmp_path.iterdir()) == []


def test_options_without_effect_warn(demos: Path) -> None:
    with pytest.warns(UserWarning, match="have no effect without images"):
        make(demos, shadows=False)


def test_all_stands_for_every_task() -> None:
    assert job.checked_tasks(Demonstrations(tasks=("all",)), METAWORLD) == tuple(TASKS)
