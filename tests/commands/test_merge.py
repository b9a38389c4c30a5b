"""`--shard` and `oatkit merge` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.envs.simulator_table import SIMULATORS
from oatkit.storage.records import read_record
from oatkit.types import PolicyEvaluation, TokenizerSweep
from tests.commands.running import run_command
from tests.data import datasets
from tests.data.datasets import make_demos
from tests.evaluation.plane import PLANE
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.walks import write_walks
from tests.shards.small_disk import make_room, small_disk

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


def test_a_full_disk_in_the_middle_of_a_shard(tmp_path: Path, capsys: Capture) -> None:
    """One sentence, nothing lost; with room the same command goes on to the bytes of one run."""
    data = datasets.write_npz_folder(tmp_path / "source", make_demos() * 20)
    command = ["data", "convert", str(data), "--cache", str(tmp_path / "cache"), "--shard", "0/1"]
    whole = tmp_path / "whole"
    assert run_command([*command, "--out", str(whole)], capsys)[0] == 0
    with small_disk(tmp_path / "disk", "128k") as disk:
        out = disk / "run"
        code, shown, error = run_command([*command, "--out", str(out)], capsys)
        assert code == 2
        assert f"no room is left for {out}: make room; finished units are kept" in error
        num_kept = len(list((out / "units").iterdir()))
        assert shown.count(" of 8)\n") == num_kept
        assert 0 < num_kept < 8
        make_room(disk, "4m")
        code, shown, _ = run_command([*command, "--out", str(out)], capsys)
        assert code == 0
        assert f"{8 - num_kept} units, {num_kept} were finished before" in shown
        for path in (whole / "dataset").rglob("*.parquet"):
            assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes()


def test_a_merge_of_different_runs(tmp_path: Path, capsys: Capture) -> None:
    data = datasets.write_npz_folder(tmp_path / "source", make_demos() * 20)
    for name, flags in {"a": (), "b": ("--shift-actions", "1")}.items():
        where = ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / name)]
        command = ["data", "convert", str(data), *flags, *where, "--shard", "0/2"]
        assert run_command(command, capsys)[0] == 0
    for record in (tmp_path / "b/units").iterdir():
        (tmp_path / "a/units" / f"{int(record.stem) + 8:06d}.json").write_bytes(record.read_bytes())
    code, _, error = run_command(["merge", str(tmp_path / "a")], capsys)
    assert code == 2
    assert "000008.json is of another run than plan.json" in error
    assert not (tmp_path / "a/dataset").exists()


def test_a_folder_that_no_shard_wrote(tmp_path: Path, capsys: Capture) -> None:
    code, _, error = run_command(["merge", str(tmp_path)], capsys)
    assert code == 2
    assert "has no plan.json: expected the folder (--out) of a command with --shard" in error
