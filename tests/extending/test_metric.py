"""A metric is added as `docs/measuring.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import oatkit
from tests.extending.harness import extend


def test_a_metric_is_one_file_and_one_row(tmp_path: Path) -> None:
    extended = extend("measuring.md", tmp_path, "How to add a metric")
    assert len(extended.new) == 1
    assert len(extended.changed) == 1
    data, out, measured = tmp_path / "data.npz", tmp_path / "bin", tmp_path / "measured.json"
    actions = np.random.default_rng(0).normal(size=(200, 2))
    np.savez(data, action=actions, episode_ends=np.arange(20, 201, 20))
    train = ("tokenizer", "train", "--data", str(data), "--kind", "bin", "--horizon", "8")
    extended.oatkit(*train, "--out", str(out))
    measure = ("tokenizer", "measure", str(out), "--data", str(data), "--split", "all")
    printed = extended.oatkit(*measure, "--out", str(measured))
    (found,) = json.loads(measured.read_text())[0]["budgets"]
    tokenizer = oatkit.load_tokenizer(out)
    wanted_BTA = oatkit.open_dataset(data).chunks(8).actions(np.arange(200))[0]
    decoded_BTA = tokenizer.decode(tokenizer.encode(torch.from_numpy(wanted_BTA))).numpy()
    expected = np.square(decoded_BTA[:, 0] - wanted_BTA[:, 0]).mean()
    assert found["more"]["first_step_mse"] == pytest.approx(expected, rel=1e-4)
    assert "first step" in printed
    assert f"{expected:.2e}" in printed
