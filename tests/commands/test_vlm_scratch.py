"""`oatkit vlm scratch`: a checkpoint of random weights that its own seed decides."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from safetensors.numpy import load_file

from oatkit import cli


def write(folder: Path, *flags: str) -> int:
    small = ("--width", "16", "--num-layers", "1", "--vision-width", "16", "--vision-layers", "1")
    return cli.main(["vlm", "scratch", "--family", "smolvlm", "--out", str(folder), *small, *flags])


def test_the_seed_decides_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert write(tmp_path / name, "--seed", seed) == 0
        assert f"wrote {tmp_path / name}" in capsys.readouterr().out
    weights = {name: load_file(tmp_path / name / "model.safetensors") for name in "abc"}
    assert all((weights["a"][key] == weights["b"][key]).all() for key in weights["a"])
    assert any((weights["a"][key] != weights["c"][key]).any() for key in weights["a"])


def test_a_checkpoint_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write(tmp_path / "a") == 0
    assert write(tmp_path / "a") == 2
    assert "holds a checkpoint already: name another --out" in capsys.readouterr().err
