"""The flags of a dataset's columns: what they open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from oatkit.commands import dataset_options
from oatkit.commands.dataset_options import DatasetOptions
from oatkit.data import open as opening
from oatkit.data.source import Opening, Source
from oatkit.errors import DatasetError
from tests.tokenizers.small_tokenizers import make

QUIET = Console(quiet=True)


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
    dataset = DatasetOptions(cache=tmp_path / "cache").open(str(path), QUIET)
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
    dataset = options.open(str(path), QUIET)
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
        _ = options.open(str(tmp_path / "d.npz"), QUIET).action_statistics()
    options.open(str(tmp_path / "d.npz"), QUIET, allow_nonfinite=True)


def test_a_quiet_console_has_no_bar_while_columns_are_decoded(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if it were a terminal
    DatasetOptions(cache=tmp_path / "cache").open(str(path), QUIET)
    assert capfd.readouterr() == ("", "")
    DatasetOptions(cache=tmp_path / "other").open(str(path), Console())
    assert "reading action" in capfd.readouterr().err


def test_the_files_are_opened_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_source(path: str, how: Opening) -> Source:
        opened.append(path)
        return opening.open_source(path, how)

    monkeypatch.setattr(dataset_options, "open_source", open_source)
    DatasetOptions(cache=tmp_path / "cache").open_like(make("bin"), str(path), QUIET)
    assert opened == [str(path)]


def test_episodes_are_chosen_by_number(path: Path, tmp_path: Path) -> None:
    options = DatasetOptions(episodes=("1:",), cache=tmp_path / "cache")
    assert options.open(str(path), QUIET).episode_numbers.tolist() == [1]
    assert " --episodes 1:" in options.flags()
    with pytest.raises(ValueError, match=r"--episodes got 'all', expected numbers"):
        DatasetOptions(episodes=("all",)).open(str(path), QUIET)
    with pytest.raises(ValueError, match=r"none of the asked episodes \(--episodes\)"):
        DatasetOptions(episodes=("7",), cache=tmp_path / "cache").open(str(path), QUIET)
