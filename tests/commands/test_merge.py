"""`--shard` and `oatkit merge` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.envs.simulator_table import SIMULATORS
from oatkit.storage.records import read_record
from oatkit.types import PolicyEvaluation, TokenizerSweep
from tests.commands.running import run_command
from tests.evaluation.plane import PLANE
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.walks import write_walks

Capture = pytest.CaptureFixture[str]


def test_an_evaluation_in_two_shards(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIMULATORS, "pusht", PLANE)
    policy, out = save_plane_policy(tmp_path), tmp_path / "run"
    command = ["policy", "eval", str(policy), "--env", "pusht", "--tasks", "near", "--episodes"]
    command += ["3", "--budgets", "1", "--workers", "1", "--out", str(out), "--shard"]
    code, shown, _ = run_command([*command, "0/2"], capsys)
    assert code == 0
    assert "near/budget-1/0002 (2 of 2)\nshard 0/2: 2 units\n" in shown
    assert f"next, when all shards have ended: oatkit merge {out}" in shown
    code, _, error = run_command(["merge", str(out)], capsys)
    assert code == 2
    assert "lacks 1 of 3 units: near/budget-1/0001; run the shards that have them" in error
    code, shown, _ = run_command([*command, "1/2"], capsys)
    assert code == 0
    code, shown, _ = run_command(["merge", str(out)], capsys)
    assert (code, shown) == (0, f"wrote {out / 'evaluation.json'}\n")
    assert len(read_record(out / "evaluation.json", PolicyEvaluation).episodes) == 3
    code, shown, _ = run_command([*command, "0/2"], capsys)
    assert "shard 0/2: 0 units, 2 were finished before" in shown
    for flags, message in {
        ("2/2",): "--shard is 2/2, expected 0/2 to 1/2",
        ("all",): "--shard is 'all', expected NUMBER/COUNT",
        ("0/2", "--videos", "1"): "--videos is not for --shard: leave it out",
        ("0/2", "--delay", "1"): "holds another run (delay was 0, is 1)",
    }.items():
        code, _, error = run_command([*command, *flags], capsys)
        assert code == 2
        assert message in error


def test_a_sweep_in_a_folder(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    monkeypatch.setattr("oatkit.jobs.tokenizer_ablations.LEVELS", ((5, 4),))
    data, out = write_walks(tmp_path / "walks.npz"), tmp_path / "run"
    command = ["tokenizer", "sweep", "--data", str(data), "--only", "levels", "--preset", "tiny"]
    command += ["--steps", "2", "--out", str(out), "--shard", "0/1"]
    code, shown, _ = run_command(command, capsys)
    assert code == 0
    assert f"shard 0/1: 1 units\nwrote {out / 'sweep.json'}\n" in shown, "the only shard is joined"
    assert len(read_record(out / "sweep.json", TokenizerSweep).rows) == 1
    before = (out / "sweep.json").read_bytes()
    assert run_command(["merge", str(out)], capsys)[0] == 0
    assert (out / "sweep.json").read_bytes() == before


def test_a_comparison_needs_steps(tmp_path: Path, capsys: Capture) -> None:
    data = write_walks(tmp_path / "walks.npz")
    command = ["tokenizer", "compare", "--data", str(data), "--out", str(tmp_path / "run")]
    command += ["--kinds", "bin", "--preset", "tiny", "--shard", "0/1"]
    for flag in ("--minutes", "--policy-minutes"):
        code, _, error = run_command([*command, flag, "1"], capsys)
        assert code == 2
        assert f"{flag} is not for --shard" in error


def test_a_folder_that_no_shard_wrote(tmp_path: Path, capsys: Capture) -> None:
    code, _, error = run_command(["merge", str(tmp_path)], capsys)
    assert code == 2
    assert "has no plan.json: expected the folder (--out) of a command with --shard" in error
