"""A tokenizer is added as `docs/adding_a_tokenizer.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.extending.harness import Extended, extend

PREDICT = """
import sys, oatkit
from oatkit.policies import LightConfig, policy_for_dataset
dataset = oatkit.open_dataset(sys.argv[1])
net = LightConfig(width=16, num_layers=1, num_heads=2)
policy = policy_for_dataset(net, oatkit.load_tokenizer(sys.argv[2]), dataset)
batch = dataset.chunks(8, history=policy.spec.history).batch([3])
observation = {k: v for k, v in batch.items() if k.startswith("observation")}
print(policy.predict_action_chunk(observation, budget=2).chunk.shape)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extend("adding_a_tokenizer.md", tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "walks.npz"
    rng = np.random.default_rng(0)
    walks = rng.normal(size=(10, 40, 2)).cumsum(axis=1).reshape(-1, 2)
    np.savez(
        path, **{"action": walks, "observation.state": walks}, episode_ends=np.arange(40, 401, 40)
    )
    return path


@pytest.fixture(scope="module")
def line(extended: Extended, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of the new kind."""
    out = tmp_path_factory.mktemp("artifact") / "line"
    train = ("tokenizer", "train", "--data", str(data), "--kind", "line", "--horizon", "8")
    extended.oatkit(*train, "--out", str(out))
    return out


def test_a_tokenizer_is_one_file_and_one_row(extended: Extended) -> None:
    assert len(extended.new) == 1
    assert len(extended.changed) == 1


def test_it_is_trained_measured_and_compared(
    extended: Extended, data: Path, tmp_path: Path
) -> None:
    train = ("tokenizer", "train", "--data", str(data), "--kind", "line", "--horizon", "8")
    extended.oatkit(*train, "--out", str(tmp_path / "line"))
    out = tmp_path / "measured.json"
    measure = ("tokenizer", "measure", str(tmp_path / "line"), "--data", str(data))
    extended.oatkit(*measure, "--out", str(out))
    (found,) = json.loads(out.read_text())
    trained = [b for b in found["budgets"] if b["is_trained"]]
    assert [b["budget"] for b in trained] == [2, 4]
    assert trained[1]["mse"] < trained[0]["mse"]
    compare = ("tokenizer", "compare", "--data", str(data), "--kinds", "bin", "line")
    extended.oatkit(*compare, "--horizon", "8", "--out", str(tmp_path / "compared"))
    assert "line" in (tmp_path / "compared/report.html").read_text()


def test_a_policy_speaks_it(extended: Extended, data: Path, line: Path) -> None:
    printed = extended.run("-c", PREDICT, str(data), str(line))
    assert "(1, 8, 2)" in printed


def test_the_conformance_suite_runs_on_it(extended: Extended) -> None:
    suite = "tests/tokenizers/test_conformance.py"
    printed = extended.run("-m", "pytest", "-q", "-p", "no:cacheprovider", suite, "-k", "line")
    assert "passed" in printed
    assert "skipped" not in printed
    assert int(printed.split(" passed")[0].split()[-1]) >= 12


def test_its_color_is_its_own(extended: Extended) -> None:
    colors = "tests/measure/reports/test_chart.py"
    extended.run("-m", "pytest", "-q", "-p", "no:cacheprovider", colors, "-k", "color or kind")
