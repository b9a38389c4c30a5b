"""The flags of a dataset's columns: what they open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.commands.dataset_options import DatasetOptions
from oatkit.errors import DatasetError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "d.npz",
        **{
            "action": rng.normal(size=(30, 3)),
            "torque": rng.normal(size=(30, 2)),
            "observation.state": rng.normal(size=(30, 4)),
        },
        episode_ends=[10, 30],
    )
    return tmp_path / "d.npz"


def test_by_default_the_format_decides(path: Path, tmp_path: Path) -> None:
    dataset = DatasetOptions(cache=tmp_path / "cache").open(str(path))
    assert (dataset.action_dim, dataset.state_dim, dataset.fps) == (3, 4, None)
    assert dataset.cache_dir == tmp_path / "cache"
    assert (tmp_path / "cache").exists()


def test_columns_dimensions_and_rate_can_be_named(path: Path, tmp_path: Path) -> None:
    options = DatasetOptions(
        action_key=("torque", "action"),
        state_key=("torque",),
        action_dims=("0", "4"),
        fps=20.0,
        cache=tmp_path / "cache",
    )
    dataset = options.open(str(path))
    assert (dataset.action_dim, dataset.state_dim, dataset.fps) == (2, 2, 20.0)
    with np.load(path) as file:
        wanted = np.stack([file["torque"][:, 0], file["action"][:, 2]], axis=1)
    chunks = dataset.chunks(1).actions(np.arange(30))[0]
    np.testing.assert_allclose(chunks[:, 0], wanted, rtol=1e-6)


def test_numbers_that_are_not_finite_are_refused_unless_allowed(tmp_path: Path) -> None:
    action = np.ones((10, 2))
    action[3, 1] = np.nan
    np.savez(tmp_path / "d.npz", action=action, episode_ends=[10])
    options = DatasetOptions(cache=tmp_path / "cache")
    with pytest.raises(DatasetError, match="frame 3"):
        _ = options.open(str(tmp_path / "d.npz")).action_statistics()
    options.open(str(tmp_path / "d.npz"), allow_nonfinite=True)


def test_episodes_are_chosen_by_number(path: Path, tmp_path: Path) -> None:
    options = DatasetOptions(episodes=("1:",), cache=tmp_path / "cache")
    assert options.open(str(path)).episode_numbers.tolist() == [1]
    assert options.flags().startswith(" --episodes 1: ")
    with pytest.raises(ValueError, match=r"--episodes got 'all', expected numbers"):
        DatasetOptions(episodes=("all",)).open(str(path))
    with pytest.raises(ValueError, match=r"none of the asked episodes \(--episodes\)"):
        DatasetOptions(episodes=("7",), cache=tmp_path / "cache").open(str(path))
