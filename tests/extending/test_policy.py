"""A policy is added as `docs/adding_a_policy.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oatkit
from tests.extending.harness import Extended, extend
from tests.policies import tiny

ACT = """
import json, sys
import numpy as np
import oatkit

data = oatkit.open_dataset(sys.argv[1])
policy = oatkit.load_policy(sys.argv[2])
episode = data[0]
frame = {"observation.state": episode.state[0], "task": episode.task}
policy.reset()
found = {
    str(budget): policy.predict_action_chunk(frame, budget=budget) for budget in (2, "auto", None)
}
assert all(np.isfinite(one.chunk).all() for one in found.values())
late = policy.predict_action_chunk(frame, deadline_ms=1e-3)
print(json.dumps({
    "kind": policy.kind,
    "digest": policy.digest,
    "again": oatkit.load_policy(sys.argv[2]).digest,
    "used": {name: int(one.budget) for name, one in found.items()},
    "late": int(late.budget),
    "shape": found["2"].chunk.shape,
    "has_thresholds": policy.auto is not None,
}))
"""
OTHER = """
import sys, oatkit
from tests.policies import tiny
data = oatkit.open_dataset(sys.argv[1])
for kind in ("bin", "fast", "quest"):
    tokenizer = tiny.make_tokenizer(kind, data)
    policy = oatkit.train_policy(data, tokenizer, "linear", preset="tiny", train={"steps": 2})
    print(kind, policy.kind, policy.heads)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extend("adding_a_policy.md", tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz"))


def test_a_policy_is_one_file_and_one_row(extended: Extended) -> None:
    assert len(extended.new) == 1
    assert len(extended.changed) == 1


def test_it_is_trained_measured_opened_and_acts(
    extended: Extended, data: str, tmp_path: Path
) -> None:
    tokenizer, policy, record = (str(tmp_path / name) for name in ("klt", "linear", "m.json"))
    dataset = oatkit.open_dataset(data, cache_dir=tmp_path / "cache")
    tiny.make_tokenizer("klt", dataset).save_pretrained(tokenizer)
    more = ("--tokenizer", tokenizer, "--preset", "tiny", "--steps", "60", "--out", policy)
    extended.oatkit("policy", "train", "--data", data, "--policy", "linear", *more)
    rows = [json.loads(line) for line in (tmp_path / "linear/train.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    assert losses[-1] < 0.9 * losses[0]
    extended.oatkit("policy", "measure", policy, "--data", data, "--out", record)
    (measured,) = json.loads(Path(record).read_text())
    assert [row["budget"] for row in measured["budgets"]] == [1, 2, 4, 6]
    found = json.loads(extended.run("-c", ACT, data, policy))
    assert found["kind"] == "linear"
    assert found["digest"] == found["again"]
    assert (found["used"]["2"], found["used"]["None"], found["late"]) == (2, 6, 1)
    assert found["used"]["auto"] in range(1, 7)
    assert found["shape"] == [tiny.HORIZON, tiny.ACTION_DIM]
    assert found["has_thresholds"]


def test_every_tokenizer_goes_with_it_from_python(extended: Extended, data: str) -> None:
    printed = extended.run("-c", OTHER, data)
    assert printed.splitlines() == [
        f"{kind} linear ('tokens',)" for kind in ("bin", "fast", "quest")
    ]


def test_help_and_errors_name_it(extended: Extended, data: str) -> None:
    shown = extended.oatkit("policy", "train", "--help")
    assert "linear: two linear layers" in " ".join(shown.replace("│", " ").split())
    code = "from oatkit.policies.policy_table import policy_kind\npolicy_kind('linaer')"
    with pytest.raises(AssertionError, match=r"unknown policy 'linaer'; known, .*: linear"):
        extended.run("-c", code)
