"""`oatkit export`: what it says and writes, and what cannot be exported."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from oatkit_client import LocalDecoder, LocalPolicy

import oatkit
from oatkit.cli import main
from oatkit.data import Dataset
from tests.oatkit_client.exported import write_exported
from tests.policies import tiny


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(str(tiny.write_dataset(Path(tmp_path_factory.mktemp("d")) / "data")))


@pytest.fixture(scope="module")
def exported(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A policy from state, and its files."""
    return write_exported(tmp_path_factory.mktemp("export"), dataset)


def test_a_tokenizers_decoder(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tiny.make_tokenizer("klt", dataset)
    tokenizer.save_pretrained(tmp_path / "klt")
    assert main(["export", str(tmp_path / "klt"), "--out", str(tmp_path / "onnx")]) == 0
    assert "LocalDecoder(" in capsys.readouterr().out
    assert sorted(file.name for file in (tmp_path / "onnx").iterdir()) == [
        "decoder.onnx",
        "export.json",
    ]
    decoder = LocalDecoder(tmp_path / "onnx")
    ragged = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10]]
    np.testing.assert_allclose(decoder.decode(ragged), tokenizer.decode(ragged), atol=1e-3)
    assert decoder.decode(np.array([1, 2, 3])).shape == (8, 3)
    assert decoder.decode(np.zeros((5, 6), int)).shape == (5, 8, 3)
    with pytest.raises(ValueError, match="expected a light policy's files"):
        LocalPolicy(tmp_path / "onnx")


def test_what_to_call_next_is_named(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.make_policy("oat-pow2", dataset, history=1).save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy")]) == 0
    assert "next: oatkit_client.LocalPolicy(" in capsys.readouterr().out


def test_what_cannot_be_exported(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.make_tokenizer("fast", dataset).save_pretrained(tmp_path / "fast")
    assert main(["export", str(tmp_path / "fast"), "--out", str(tmp_path / "onnx")]) == 2
    assert "fast has no decoder in ONNX" in capsys.readouterr().err
    assert not (tmp_path / "onnx").exists()
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "onnx")]) == 2
    assert "is no readable artifact" in capsys.readouterr().err
    assert main(["export", "someone/policy"]) == 2
    assert "is no folder here: name one for the files with --out" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"holds no export\.json: `oatkit export"):
        LocalDecoder(tmp_path)


def test_missing_packages_are_named(
    exported: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, files = exported
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'oatkit-client\[onnx\]'"):
        LocalDecoder(files)
    assert main(["export", str(folder), "--out", str(tmp_path / "onnx")]) == 2
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", str(folder), "--out", str(tmp_path / "onnx")]) == 2
    assert capsys.readouterr().err.count("pip install 'oatkit[onnx]'") == 2
