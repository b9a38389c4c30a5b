"""Files of tensors are readable by those who can read the files beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from oatkit.storage.tensor_file import write_tensors

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1, 2])}


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_a_file_has_the_mode_of_other_new_files(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_tensors(TENSORS, tmp_path / "x.safetensors")
        (tmp_path / "beside.json").write_text("{}")
    finally:
        os.umask(before)
    modes = {file.stat().st_mode for file in tmp_path.iterdir()}
    assert modes == {(tmp_path / "beside.json").stat().st_mode}


def test_tensors_come_back(tmp_path: Path) -> None:
    for _ in range(2):  # also over a file that is there
        write_tensors(TENSORS, tmp_path / "x.safetensors")
    found = safetensors.torch.load_file(tmp_path / "x.safetensors")
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)
