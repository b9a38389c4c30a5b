"""Tables of the paper in shards: the same numbers as in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oatkit.errors import ShardError
from oatkit.jobs.paper_reproduction import plan_reproduction, reproduce
from oatkit.jobs.reproduction_shards import ReproductionWork
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard
from oatkit.storage.records import read_record
from oatkit.types import Reproduction
from tests.jobs.reproduction_places import plane_demonstrations


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    data = plane_demonstrations(tmp_path, monkeypatch)
    return {"scale": "tiny", "data": data, "workers": 1, "device": "cpu"}


def run_all(folder: Path, count: int, table: str, how: dict[str, Any]) -> Path:
    for index in reversed(range(count)):
        work = ReproductionWork(plan_reproduction(table, folder, may_make=False, **how))
        run_shard(work, ShardNumber(index, count), folder)
    return merge_folder(folder, MERGES)


def test_policies_on_one_tokenizer_are_one_unit(how: dict[str, Any], tmp_path: Path) -> None:
    wanted = how | {"only": ("bin", "quest"), "seeds": (0, 1)}
    one, two = (run_all(tmp_path / str(n), n, "light-policies", wanted) for n in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    work = ReproductionWork(plan_reproduction("light-policies", tmp_path, **wanted))
    assert [key.split("-")[1] for key in work.units()] == ["bin", "quest"]
    record = read_record(one, Reproduction)
    whole = reproduce("light-policies", tmp_path / "whole", **wanted)
    assert [(n.row, n.seed, n.value) for n in record.numbers] == [
        (n.row, n.seed, n.value) for n in whole.numbers
    ]
    assert record == whole
    with pytest.raises(ShardError, match=r"holds another run \(episodes was 1, is 2\)"):
        run_all(tmp_path / "2", 2, "light-policies", wanted | {"episodes": 2})


@pytest.mark.parametrize("table", ["rate-distortion", "tokenizer-comparison"])
def test_errors_of_tokenizers(table: str, how: dict[str, Any], tmp_path: Path) -> None:
    wanted = how | {"only": ("bin", "quest")}
    path = run_all(tmp_path / "two", 2, table, wanted)
    whole = reproduce(table, tmp_path / "whole", **wanted)
    assert read_record(path, Reproduction) == whole
    assert path.read_bytes() == (tmp_path / f"whole/tiny/{table}.json").read_bytes()


def test_shards_make_no_demonstrations(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"make metaworld --tasks .* --episodes 3 --out PATH`"):
        plan_reproduction("ordering", tmp_path, scale="tiny", may_make=False)
    with pytest.raises(ValueError, match=r"--images --image-size 32 32 .* --data doors=PATH"):
        plan_reproduction("vlm-policies", tmp_path, scale="tiny", may_make=False)
    assert not any(tmp_path.iterdir())
