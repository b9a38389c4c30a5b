from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oatkit.errors import MissingExtraError
from tests.data.rerun_reading import read_recording


def test_without_rerun_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)
    monkeypatch.delitem(sys.modules, "oatkit.data.rerun_recording", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[rerun\]'"):
        importlib.import_module("oatkit.data.rerun_recording")


def test_what_was_added_is_in_the_file(tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    from oatkit.data.rerun_recording import rerun_recording

    path = tmp_path / "new/view.rrd"
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    image = np.full((8, 10, 3), 77, np.uint8)
    with rerun_recording(path) as recording:
        recording.add_text("open it/now", "task", "open it")
        recording.add_text("e", "tokens", "1 2", step=4)
        recording.add_curves("e", "action", values, ["x", "y"], steps=[0, 2, 4])
        recording.add_chunk("e", "true", values, ["x", "y"], step=4)
        recording.add_image("e", "front", image, step=2)
        assert not path.exists()
    found = read_recording(path)
    assert found["/open\\ it\\/now/task"]["text"] == [(None, ["open it"])]
    assert found["/e/tokens"]["text"] == [(4, ["1 2"])]
    assert found["/e/action"]["names"] == [(None, ["x", "y"])]
    assert found["/e/action"]["scalars"] == [(0, [0, 1]), (2, [2, 3]), (4, [4, 5])]
    ((step, strips),) = found["/e/chunk/true"]["strips"]
    assert step == 4
    assert strips == [[[4, 0], [5, 2], [6, 4]], [[4, 1], [5, 3], [6, 5]]]
    ((step, (blob,)),) = found["/e/camera/front"]["blob"]
    assert step == 2
    with Image.open(io.BytesIO(bytes(blob))) as decoded:
        assert np.abs(np.asarray(decoded).astype(int) - image).max() <= 2


def test_a_block_that_fails_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    from oatkit.data.rerun_recording import rerun_recording

    def fail() -> None:
        with rerun_recording(tmp_path / "view.rrd") as recording:
            recording.add_text("e", "task", "x")
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        fail()
    assert list(tmp_path.iterdir()) == []
