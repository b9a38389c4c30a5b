"""The columns are named once: artifacts remember them, and printed commands repeat them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.commands import tokenizer_compare
from oatkit.measure.reports.probe_findings import best_for_policy
from tests.commands.running import run_command

COLUMNS = ["--action-key", "torque", "grip", "--action-dims", "0", "2", "--fps", "20"]
STATE = ["--state-key", "joints"]
TINY = ["--preset", "tiny", "--steps", "1"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset whose action is not the column of that name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    shapes = {"action": 5, "torque": 2, "grip": 1, "joints": 3, "observation.state": 2}
    (tmp_path / "my data").mkdir()
    for index in range(5):
        columns = {key: rng.normal(size=(34, size)) for key, size in shapes.items()}
        np.savez(tmp_path / "my data" / f"{index}.npz", **columns)
    return "my data"


def next_command(text: str) -> list[str]:
    """The command that the output names, as words."""
    found = re.search(r"^next: oatkit (.*)$", text, re.MULTILINE)
    assert found is not None, text
    return shlex.split(found[1])


def test_what_is_printed_next_can_be_run(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run_command(["data", "info", data, *COLUMNS, *STATE], capsys)
    assert sorted(next_command(text)) == sorted(["data", "check", data, *COLUMNS, *STATE])
    code, text, _ = run_command(next_command(text), capsys)
    assert code == 0, text
    train = [*next_command(text), "--kind", "bin", "--horizon", "8"]
    code, text, _ = run_command(train, capsys)
    assert code == 0, text
    assert oatkit.load_tokenizer("out/tokenizer").data.action_keys == ("torque", "grip")
    code, text, err = run_command(next_command(text), capsys)
    assert code == 0, text + err
    assert "note:" not in text
    code, text, err = run_command([*next_command(text), *TINY], capsys)
    assert code == 0, text + err
    assert oatkit.load_policy("out/policy").extras["data"]["state_keys"] == ["joints"]
    code, text, err = run_command(next_command(text), capsys)
    assert code == 0, text + err
    assert next_command(text) == ["serve", "out/policy"]


def test_a_comparison_leads_to_a_policy(
    data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = ["tokenizer", "compare", "--data", data, *COLUMNS, *STATE, "--out", "my out"]
    code, text, err = run_command([*compare, "--kinds", "bin", "--horizon", "8"], capsys)
    assert code == 0, text + err
    again = next_command(text)
    again[again.index("--policy-minutes") + 1] = "1e-4"
    code, text, err = run_command(again, capsys)
    assert code == 0, text + err
    longer = next_command(text)
    assert longer[longer.index("--policy-minutes") + 1] == "0.0004"  # nobody has learned anything
    longer[longer.index("--policy-minutes") + 1] = "1e-4"
    monkeypatch.setattr(
        tokenizer_compare, "recommended", best_for_policy
    )  # as if it had been hours
    code, text, err = run_command(longer, capsys)
    assert code == 0, text + err
    code, text, err = run_command([*next_command(text), *TINY], capsys)
    assert code == 0, text + err
    assert oatkit.load_policy("out/policy").tokenizer.kind == "bin"


def test_artifacts_remember_their_columns(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["tokenizer", "train", "--data", data, "--kind", "oat", "--horizon", "8", *TINY]
    run_command([*train, "--out", "oat", *COLUMNS], capsys)
    for command in (
        ["tokenizer", "measure", "oat", "--data", data],
        ["tokenizer", "train", "--init", "oat", "--data", data, *TINY, "--out", "more"],
        ["policy", "train", "--data", data, "--tokenizer", "oat", *TINY, *STATE, "--out", "policy"],
        ["policy", "measure", "policy", "--data", data],
        ["policy", "train", "--data", data, "--init", "policy", *TINY, "--out", "policy2"],
        ["lab", "oat", "--data", data, "--export", "page", "--chunks", "0:3"],
    ):
        code, text, err = run_command(command, capsys)
        assert code == 0, (command, text, err)
        assert "note: oat: " not in text, "no dimension drifted, and the rate is known"
    policy = oatkit.load_policy("policy2")
    assert policy.extras["data"]["state_keys"] == ["joints"]
    assert policy.extras["data"]["fps"] == 20
    assert policy.tokenizer.action_dim == 2


def test_a_dataset_without_these_columns_is_read_by_its_own(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["tokenizer", "train", "--data", data, "--kind", "bin", "--horizon", "8"]
    run_command([*train, "--out", "bin", *COLUMNS], capsys)
    np.savez(tmp_path / "other.npz", action=np.random.default_rng(0).normal(size=(40, 2)))
    measure = ["tokenizer", "measure", "bin", "--data", "other.npz", "--split", "all"]
    code, text, err = run_command(measure, capsys)
    assert code == 0, text + err


def test_an_error_names_the_flag(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["tokenizer", "train", "--data", data, "--kind", "bin", "--horizon", "8"]
    run_command([*train, "--out", "bin", *COLUMNS], capsys)
    policy = ["policy", "train", "--data", data, "--tokenizer", "bin", *TINY, "--out", "policy"]
    run_command(policy, capsys)
    measure = ["policy", "measure", "policy", "--data", data, "--action-key", "action"]
    code, _, err = run_command(measure, capsys)
    assert code == 2
    assert "2 action dimensions, my data has 5: name its columns with --action-key" in err
