"""Comparing kinds from Python: the record, the folder it may be in, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.tokenizer_comparison import compare
from oatkit.jobs.tokenizer_training import TokenizerTraining
from oatkit.storage.records import read_record
from oatkit.types import TokenizerComparison
from tests.jobs.walks import write_walks

SMALL = {"preset": "tiny", "horizon": 8, "num_tokens": 4, "levels": (5, 4)}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(write_walks(folder / "walks.npz"), cache_dir=folder / "cache")


@pytest.fixture(autouse=True)
def _brief_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)


def test_without_a_folder_the_record_is_all(
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    found = oatkit.compare(dataset, ("bin", "oat"), train={"steps": 2}, **SMALL)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    assert [kind.measurement.kind for kind in found.kinds] == ["oat", "bin"], "the table's order"
    assert (found.steps, found.command) == ({"oat": 2, "bin": 0}, "")


def test_with_a_folder_it_goes_on_there_and_writes_a_report(
    dataset: Dataset, tmp_path: Path
) -> None:
    compare(dataset, ("bin",), tmp_path, **SMALL)
    page = (tmp_path / "report.html").read_text()
    assert "<td>bin</td>" in page
    found = compare(dataset, ("bin", "klt"), tmp_path, **SMALL)
    assert read_record(tmp_path / "comparison.json", TokenizerComparison) == read_json(found)
    assert oatkit.load_tokenizer(tmp_path / "klt").max_tokens == 4


def read_json(record: TokenizerComparison) -> TokenizerComparison:
    """The record as it would be read back: JSON has no tuples."""
    from oatkit.storage.records import record_from_json, record_to_json

    return record_from_json(TokenizerComparison, json.loads(json.dumps(record_to_json(record))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ()}, "name at least one kind"),
        ({"kinds": ("oats",)}, "unknown tokenizer kind 'oats'; known, closest first: oat"),
        ({"minutes": 0.0}, "--minutes is 0.0, expected more than 0"),
        ({"minutes": 1.0, "train": {"steps": 3}}, "give --steps or --minutes, not both"),
        ({"kinds": ("bin",), "correct": True}, "is for klt, which is not among the kinds"),
        ({"kinds": ("quest",), "horizon": 7}, "quest halves the horizon: 7 is not even"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    arguments: dict[str, object], message: str, dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        compare(dataset, out=tmp_path / "c", **{**SMALL, **arguments})  # type: ignore[arg-type]
    assert not (tmp_path / "c").exists()


def test_minutes_give_all_trained_kinds_the_steps_of_the_slowest(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are added later, however fast a trial finds them."""
    affordable = {"oat": 3, "quest": 5, "acodec": 1}
    monkeypatch.setattr(
        TokenizerTraining, "affordable_steps", lambda self, *_: affordable[self.tokenizer.kind]
    )
    how = {**SMALL, "train": None, "minutes": 1.0}
    found = compare(dataset, ("quest", "bin", "oat"), tmp_path, **how)
    assert found.steps == {"quest": 3, "bin": 0, "oat": 3}
    assert oatkit.load_tokenizer(tmp_path / "quest").extras["train"]["steps"] == 3
    assert compare(dataset, ("acodec",), tmp_path, **how).steps["acodec"] == 3


def test_shown_chunks_move_a_little_much_and_most(dataset: Dataset) -> None:
    found = compare(dataset, ("bin",), **SMALL)
    spread = [float(np.std(sample, axis=0).sum()) for sample in found.samples]
    assert spread == sorted(spread)
