"""Exported files stand for themselves, and agree with torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.jobs import model_export
from oatkit.jobs.model_export import export_model
from tests.policies import tiny


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(str(tiny.write_dataset(Path(tmp_path_factory.mktemp("d")) / "data")))


@pytest.fixture(scope="module")
def exported(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A policy from state, and its files."""
    folder = Path(tmp_path_factory.mktemp("export"))
    policy = tiny.make_policy("oat-pow2", dataset, history=1)
    found = export_model(policy, folder / "onnx")
    assert [path.name for path in found.file_bytes] == [
        "decoder.onnx",
        "encoder.onnx",
        "stage.onnx",
    ]
    assert found.file_bytes == {path: path.stat().st_size for path in found.file_bytes}
    assert found.left_out is None
    return policy.save_pretrained(folder / "policy"), folder / "onnx"


def test_the_json_says_all_that_a_caller_needs(exported: tuple[Path, Path]) -> None:
    folder, files = exported
    facts = json.loads((files / "export.json").read_text())
    tokenizer = oatkit.load_policy(folder).tokenizer
    assert (facts["schema"], facts["kind"]) == ("oatkit/export", "oat-pow2")
    assert (facts["horizon"], facts["action_dim"], facts["max_tokens"]) == (8, 3, 8)
    assert facts["budgets"] == facts["schedule"] == [1, 2, 4, 8]
    assert facts["normalization"] == tokenizer.normalizer.to_json()
    assert facts["fingerprint"] == tokenizer.digest
    assert facts["decoder"]["inputs"]["tokens"] == {"dtype": "int64", "shape": ["B", 8]}
    assert facts["decoder"]["outputs"]["actions"] == {"dtype": "float32", "shape": ["B", 8, 3]}
    policy = facts["policy"]
    assert policy["tasks"] == list(tiny.TASKS)
    assert policy["encoder"]["inputs"]["observation.state"]["shape"] == ["B", 1, 5]
    assert [stage["num_kept"] for stage in policy["stages"]] == [0, 1, 1, 2]
    assert set(facts["difference_from_torch"]) == {"decoder", "encoder", "stage"}
    assert max(facts["difference_from_torch"].values()) < 1e-4
    for part in (facts["decoder"], policy["encoder"], policy["stage"]):
        assert (files / part["file"]).stat().st_size > 0


def test_a_folder_gives_the_same_files_as_what_it_holds(
    exported: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, files = exported
    export_model(folder, tmp_path)
    for path in files.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_files_that_differ_from_torch_are_not_written(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_export, "TOLERANCE", -1.0)
    with pytest.raises(ArtifactError, match=r"decoder\.onnx differs from torch by"):
        export_model(tiny.make_tokenizer("klt", dataset), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_an_export_that_was_interrupted_is_none(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of two exports never stand beside one description."""
    policy = tiny.make_policy("bin", dataset, history=1)
    export_model(policy, tmp_path)
    real = Path.write_bytes

    def interrupted(path: Path, data: bytes) -> int:
        if path.name == "encoder.onnx":
            raise KeyboardInterrupt
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_model(policy, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("decoder.onnx", "encoder.onnx", "stage.onnx")
    }
