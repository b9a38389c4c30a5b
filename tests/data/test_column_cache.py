from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from oatkit.data.column_cache import ColumnCache, default_cache_dir
from oatkit.data.open import open_source
from tests.data import datasets
from tests.data.datasets import make_demos, truncate


def test_a_dataset_changed_on_disk_is_decoded_again(tmp_path: Path) -> None:
    demos = make_demos()
    path = datasets.write_npz_file(tmp_path / "all.npz", demos)
    before = oatkit.open_dataset(path)[0].actions
    demos[0].actions[0, 0] = 7
    datasets.write_npz_file(path, demos)
    assert oatkit.open_dataset(path)[0].actions[0, 0] == 7
    assert before[0, 0] != 7


def test_a_failed_open_leaves_nothing_half_written(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    truncate(root / "data/chunk-000/episode_000002.parquet")
    cache = tmp_path / "cache"
    with pytest.raises(DatasetError, match="cannot be read"):
        oatkit.open_dataset(root, cache_dir=cache)
    assert [p for p in cache.rglob("*") if p.is_file()] == []


def test_a_column_called_task_index_is_no_trouble(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", action=np.ones((4, 2)), task_index=np.arange(4.0))
    with_state = oatkit.open_dataset(tmp_path / "d.npz", state_key="task_index")
    assert with_state[0].task == "d"
    assert oatkit.open_dataset(tmp_path / "d.npz")[0].task == "d"
    np.testing.assert_array_equal(with_state[0].state, [[0], [1], [2], [3]])


def test_a_column_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    cache = ColumnCache(source, tmp_path / "cache")
    first = cache.column("action")
    monkeypatch.setattr(type(source), "read", lambda self, key: (1 / 0 for _ in "x"))
    assert ColumnCache(source, tmp_path / "cache").column("action") == first
    np.testing.assert_array_equal(
        first.open(), np.concatenate([demo.actions for demo in make_demos()])
    )


def test_the_first_row_that_is_not_finite_is_kept(tmp_path: Path) -> None:
    demos = make_demos()
    demos[1].actions[[2, 5], 0] = np.nan
    source = open_source(datasets.write_npz_file(tmp_path / "d.npz", demos))
    cache = ColumnCache(source, tmp_path / "cache")
    assert cache.column("action").first_nonfinite_row == 14
    assert cache.column("observation.state").first_nonfinite_row is None


def test_equal_episodes_have_equal_digests(tmp_path: Path) -> None:
    demos = make_demos()
    source = open_source(datasets.write_npz_file(tmp_path / "d.npz", [*demos, demos[1]]))
    digests = ColumnCache(source, tmp_path / "cache").episode_digests("action")
    assert digests.shape == (4, 16)
    assert len({row.tobytes() for row in digests}) == 3
    np.testing.assert_array_equal(digests[1], digests[3])


def test_too_many_or_too_few_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    cache = ColumnCache(source, tmp_path / "cache")
    for num_rows, message in ((40, "has too many rows"), (38, "38 rows but the episodes have 39")):
        rows = np.zeros((num_rows, 3), np.float32)
        monkeypatch.setattr(type(source), "read", lambda self, key, rows=rows: iter([rows]))
        with pytest.raises(DatasetError, match=message):
            cache.column("action")


def test_the_folder_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    monkeypatch.delenv("OATKIT_CACHE", raising=False)
    assert default_cache_dir() == Path("/some/cache/oatkit")
    monkeypatch.setenv("OATKIT_CACHE", "/other")
    assert default_cache_dir() == Path("/other")
