"""A dataset format is added as `docs/adding_a_format.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.extending.harness import Extended, extend

OPEN = """
import json, sys, oatkit
dataset = oatkit.open_dataset(sys.argv[1])
rows = [[episode.actions.tolist(), episode.state.tolist()] for episode in dataset]
print(json.dumps([dataset.format, dataset.action.names, rows]))
"""
REFUSED = """
import sys, oatkit
try: oatkit.open_dataset(sys.argv[1])
except oatkit.DatasetError as error: print(error)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extend("adding_a_format.md", tmp_path_factory.mktemp("format"))


def write(folder: Path, *, header: str = "a_x,note,a_y,s_z") -> list[np.ndarray]:
    folder.mkdir()
    tables = [np.random.default_rng(i).normal(size=(5 + i, 4)).astype("float32") for i in range(2)]
    for index, table in enumerate(tables):
        np.savetxt(folder / f"{index}.csv", table, "%.9g", ",", header=header, comments="")
    return tables


def test_a_format_is_one_file_and_one_row(extended: Extended) -> None:
    assert len(extended.new) == 1
    assert len(extended.changed) == 1


def test_numbers_are_read_and_shown(extended: Extended, tmp_path: Path) -> None:
    tables = write(tmp_path / "logs")
    printed = extended.oatkit("data", "info", str(tmp_path / "logs"))
    assert "CSV" in printed
    assert "a_x" in printed
    name, names, episodes = json.loads(extended.run("-c", OPEN, str(tmp_path / "logs")))
    assert (name, names) == ("CSV", ["a_x", "a_y"])
    for (actions, state), table in zip(episodes, tables, strict=True):
        np.testing.assert_array_equal(actions, table[:, [0, 2]])
        np.testing.assert_array_equal(state, table[:, [3]])


def test_a_broken_file_is_named(extended: Extended, tmp_path: Path) -> None:
    write(tmp_path / "logs")
    (tmp_path / "logs/1.csv").write_text("a_x,note,a_y,s_z\n1,2,three,4\n")
    assert "1.csv cannot be read (action)" in extended.run("-c", REFUSED, str(tmp_path / "logs"))
    write(tmp_path / "other", header="x,note,y,s_z")
    printed = extended.run("-c", REFUSED, str(tmp_path / "other"))
    assert "0.csv has no column that starts with a_" in printed
