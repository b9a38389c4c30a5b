from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.errors import ShardError
from oatkit.shards import ShardFolder
from oatkit.shards.unit_arrays import read_arrays, write_arrays
from tests.shards.toy_work import Squares


def test_arrays_come_back_and_damage_is_named(tmp_path: Path) -> None:
    ShardFolder.begin(tmp_path, Squares())
    path = tmp_path / "beside/n.npz"
    write_arrays(path, {"a": np.arange(3), "b": np.ones((2, 2), np.float32)})
    found = read_arrays(path, tmp_path, "n/0")
    assert {name: (str(x.dtype), x.shape) for name, x in found.items()} == {
        "a": ("int64", (3,)),
        "b": ("float32", (2, 2)),
    }
    assert [p.name for p in path.parent.iterdir()] == ["n.npz"]
    for content in (b"", path.read_bytes()[:50], b"no zip at all"):
        path.write_bytes(content)
        with pytest.raises(ShardError, match=r"n.npz is damaged: remove it and .*units/n%2F0.json"):
            read_arrays(path, tmp_path, "n/0")
    path.unlink()
    with pytest.raises(ShardError, match=r"n.npz is damaged"):
        read_arrays(path, tmp_path, "n/0")
