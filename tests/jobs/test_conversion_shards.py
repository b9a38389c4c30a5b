"""Conversions in shards: the same dataset as in one run, which is a shard, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.data import open_dataset
from oatkit.errors import ShardError
from oatkit.jobs import conversion_shards
from oatkit.jobs.conversion_plan import Conversion, ConversionPlan
from oatkit.jobs.conversion_shards import ConversionWork
from oatkit.jobs.dataset_conversion import convert_dataset
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard
from tests.data import datasets
from tests.data.datasets import make_demos

WANTED = Conversion(resample=20, cameras=("front=top",), declare=("delta:0-1",))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six episodes with images, two of which are a unit."""
    monkeypatch.setattr(conversion_shards, "EPISODES_PER_UNIT", 2)
    return datasets.write_npz_folder(tmp_path / "source", make_demos() * 2, images=True)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_file_is_that_of_one_run(source: Path, tmp_path: Path, count: int) -> None:
    dataset, folder = open_dataset(source, episodes=[0, 2, 3, 4, 5]), tmp_path / "shards"
    for index in reversed(range(count)):
        work = ConversionWork(ConversionPlan.of(dataset, WANTED))
        run_shard(work, ShardNumber(index, count), folder)
    assert work.units() == ["000000", "000002", "000004"]
    made, whole = merge_folder(folder, MERGES), convert_dataset(dataset, tmp_path / "out", WANTED)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    for file in files:
        assert (made / file).read_bytes() == (whole / file).read_bytes(), file
    assert str(open_dataset(made).transform) == "delta:0-1"


def test_a_damaged_episode_is_named_and_made_anew(source: Path, tmp_path: Path) -> None:
    work = ConversionWork(ConversionPlan.of(open_dataset(source), Conversion(cameras=())))
    run_shard(work, ShardNumber(0, 1), tmp_path / "d")
    broken = tmp_path / "d/episodes/000003.npz"
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(ShardError, match=r"000003.npz is damaged: remove it and .*000002.json"):
        merge_folder(tmp_path / "d", MERGES)
    (tmp_path / "d/units/000002.json").unlink()
    assert run_shard(work, ShardNumber(0, 1), tmp_path / "d") == (1, 2)
    assert len(open_dataset(merge_folder(tmp_path / "d", MERGES))) == 6


def test_another_conversion_is_refused(source: Path, tmp_path: Path) -> None:
    dataset = open_dataset(source)
    run_shard(ConversionWork(ConversionPlan.of(dataset, WANTED)), ShardNumber(0, 3), tmp_path / "d")
    other = ConversionWork(ConversionPlan.of(dataset, Conversion()))
    with pytest.raises(
        ShardError, match=r"holds another run \(cameras was \['front=top'\], is None"
    ):
        run_shard(other, ShardNumber(1, 3), tmp_path / "d")
