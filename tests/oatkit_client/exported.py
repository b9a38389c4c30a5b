"""A small policy from state, and what `oatkit export` wrote of it."""

from __future__ import annotations

from pathlib import Path

from oatkit.cli import main
from oatkit.data import Dataset
from tests.policies import tiny


def write_exported(folder: Path, dataset: Dataset) -> tuple[Path, Path]:
    """Folders of the policy and of its files."""
    tiny.make_policy("oat-pow2", dataset, history=1).save_pretrained(folder / "policy")
    assert main(["export", str(folder / "policy"), "--out", str(folder / "onnx")]) == 0
    return folder / "policy", folder / "onnx"
