"""The plan of a comparison: what every kind gets, how long it takes, what the record says of it."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.comparison_plan import ComparisonPlan
from oatkit.jobs.tokenizer_training import TokenizerTraining
from oatkit.presets import tokenizer_preset
from oatkit.tokenizers import KINDS
from oatkit.train import TrainConfig
from tests.jobs.walks import write_walks


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(write_walks(folder / "walks.npz"), cache_dir=folder / "cache")


def plan(dataset: Dataset, **changes: object) -> ComparisonPlan:
    settings = {
        "kinds": ("oat", "bin"),
        "preset": "tiny",
        "sizes": {"horizon": 8, "num_tokens": 4, "levels": (5, 4)},
        "split": {"held_out": 0.1, "split_seed": 0},
        "minutes": None,
        "train": {"steps": 30},
    }
    return ComparisonPlan(dataset, **{**settings, **changes})  # type: ignore[arg-type]


def test_kinds_get_the_sizes_that_they_have(dataset: Dataset) -> None:
    sizes = {kind: plan(dataset).kind_sizes(kind) for kind in KINDS}
    assert sizes["bin"] == {"horizon": 8}
    assert sizes["quest"] == {"horizon": 8, "levels": (5, 4)}
    assert sizes["klt"] == {"horizon": 8, "num_tokens": 4, "levels": (5, 4)}


def test_a_recipe_is_changed_or_replaced(dataset: Dataset) -> None:
    assert plan(dataset).recipe().steps == 30
    assert plan(dataset).recipe(7).steps == 7
    assert plan(dataset, train=None).recipe() == tokenizer_preset("tiny").train
    whole = TrainConfig(steps=5, batch_size=3)
    assert plan(dataset, train=whole).recipe() == whole
    assert plan(dataset, train=whole).recipe(9) == TrainConfig(steps=9, batch_size=3)


def test_settings_hold_what_was_asked_for_and_what_it_became(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = plan(dataset).settings()
    assert settings["train.precision"] == "float32"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert plan(dataset).settings()["train.precision"] == "bfloat16"
    assert (settings["steps"], settings["batch_size"], settings["seed"]) == (30, None, 0)
    assert settings["train.batch_size"] == tokenizer_preset("tiny").train.batch_size
    assert settings["fingerprint"] == dataset.fingerprint
    assert json.dumps(settings)


def test_how_long_it_takes_is_said_beforehand(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"oat": 200.0, "klt": 40.0}
    monkeypatch.setattr(
        TokenizerTraining, "estimate_seconds", lambda self, _: seconds[self.tokenizer.kind]
    )

    def said(kinds: tuple[str, ...], **changes: object) -> str:
        console = Console(file=io.StringIO(), width=200)
        plan(dataset, **changes).say_duration(kinds, console)
        return console.file.getvalue()  # type: ignore[attr-defined]

    long = {"steps": 10_000}
    assert "about 4 minutes (oat 3.3, klt 0.67), and" in said(("oat", "klt"), train=long)
    assert "minutes" not in said(("klt",), train=long), "less than a minute"
    assert said(("oat", "klt")) == "", "a trial would take as long as so few steps"
    assert "at most about 3 minutes (oat 1.5, klt 1.5)" in said(
        ("oat", "klt"), minutes=1.5, train=None
    )
