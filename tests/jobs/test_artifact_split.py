"""The episodes that an artifact held out."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.jobs.artifact_split import select_episodes
from tests.policies import tiny


def test_parts_are_those_of_the_training(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    extras = {"split": {"held_out": 0.25, "seed": 3}}
    train, held_out = dataset.split(0.25, seed=3)
    for name, wanted in (("train", train), ("val", held_out), ("all", dataset)):
        found = select_episodes(extras, dataset, name)  # type: ignore[arg-type]
        assert found.episode_ids.tolist() == wanted.episode_ids.tolist()


def test_an_artifact_that_does_not_say_can_be_measured_on_all(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    assert select_episodes({}, dataset, "all") is dataset
    with pytest.raises(ValueError, match="how its data were split: use --split all"):
        select_episodes({}, dataset, "val")
