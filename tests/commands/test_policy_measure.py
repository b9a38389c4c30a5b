"""`oatkit policy measure`, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import cli
from oatkit.tokenizers import KINDS
from tests.policies import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz")


@pytest.fixture(scope="module")
def tokenizers(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers")
    dataset = oatkit.open_dataset(data, cache_dir=folder / "cache")
    for kind in KINDS:
        tiny.make_tokenizer(kind, dataset).save_pretrained(folder / kind)
    return folder


def train(data: Path, out: Path, *flags: str) -> int:
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny")
    return cli.main(["policy", "train", *shared, *flags])


def test_a_policy_is_measured_on_the_state_it_was_trained_on(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(data.iterdir()):
        with np.load(path) as file:
            goal = file["observation.state"][:, :2]
            np.savez(other / path.name, **{**file, "observation.goal": goal})
    keys = ("--state-key", "observation.state", "observation.goal")
    flags = ("--tokenizer", str(tokenizers / "bin"), "--steps", "1", *keys)
    assert train(other, tmp_path / "p", *flags) == 0
    assert oatkit.load_policy(tmp_path / "p").spec.state_dim == 7
    measure = ("policy", "measure", str(tmp_path / "p"), "--data", str(other))
    assert cli.main(measure) == 0
    assert cli.main([*measure, "--state-key", "observation.state"]) == 2
    assert "observation.state is (20, 2, 5), expected (7,)" in capsys.readouterr().err
