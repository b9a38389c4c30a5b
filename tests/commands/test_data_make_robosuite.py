"""`oatkit data make robosuite` as a user runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import oatkit
from oatkit.cli import main
from oatkit.jobs import policy_ablations
from oatkit.storage.records import read_record
from oatkit.types import DemoRecord, PolicyEvaluation, PolicySweep
from tests.envs.robosuite_install import skip_without_robosuite
from tests.jobs.tiny_demo import TINY


def test_a_dataset_is_made_and_the_next_command_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_robosuite()
    out = tmp_path / "d"
    options = ("--tasks", "lift", "--episodes", "1", "--workers", "1", "--out", str(out))
    assert main(["data", "make", "robosuite", *options]) == 0
    assert len(oatkit.open_dataset(out)) == 1
    printed = capsys.readouterr().out
    assert "is ready" in printed
    assert "next: oatkit data info" in printed


def test_a_wrong_task_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    assert main(["data", "make", "robosuite", "--tasks", "lit", "--out", out]) == 2
    words = " ".join(capsys.readouterr().err.split())
    assert "unknown robosuite task 'lit'; known, closest first: lift" in words


def test_demonstrations_train_a_policy_that_is_evaluated_and_filmed(tmp_path: Path) -> None:
    """The lines of the docs, as small as they can be."""
    skip_without_robosuite()
    data, tokenizer, policy, out = (tmp_path / name for name in ("d", "bin", "policy", "eval"))
    state = "--state-key observation.environment_state"
    for line in (
        f"data make robosuite --tasks lift --episodes 3 --workers 1 --out {data}",
        f"tokenizer train --data {data} --kind bin --preset tiny --horizon 8 --out {tokenizer}",
        f"policy train --data {data} --tokenizer {tokenizer} --preset tiny {state} --steps 2 "
        f"--out {policy}",
        f"policy eval {policy} --env robosuite --episodes 1 --workers 1 --videos 1 --out {out}",
    ):
        assert main(line.split()) == 0
    record = read_record(out / "evaluation.json", PolicyEvaluation)
    (episode,) = record.episodes
    assert (episode.task, record.settings["env"]) == ("lift", "robosuite")
    assert list((out / "videos").glob("lift*.mp4"))


def test_a_sweep_acts_in_robosuite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_robosuite()
    monkeypatch.setattr(policy_ablations, "LEVELS", ((8, 6, 5),))
    data, out = tmp_path / "d", tmp_path / "sweep.json"
    for line in (
        f"data make robosuite --tasks can --episodes 3 --workers 1 --out {data}",
        f"policy sweep --data {data} --out {out} --only levels --env robosuite --preset tiny "
        "--steps 2 --tokenizer-steps 2 --episodes 1 --workers 1 "
        "--state-key observation.environment_state",
    ):
        assert main(line.split()) == 0
    sweep = read_record(out, PolicySweep)
    (row,) = sweep.rows
    assert (sweep.settings["env"], row.result.success.episodes) == ("robosuite", 1)


def test_the_demo_acts_in_robosuite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_robosuite()
    tiny = replace(TINY, simulator="robosuite", tasks=("can",))  # a lift is shorter than a chunk
    monkeypatch.setattr("oatkit.commands.demo.plan_for", lambda *_: tiny)
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    out = tmp_path / "demo"
    assert main(["demo", "--env", "robosuite", "--out", str(out)]) == 0
    assert all(stage.is_done for stage in read_record(out / "demo.json", DemoRecord).stages)
    assert (
        read_record(out / "eval/evaluation.json", PolicyEvaluation).settings["env"] == "robosuite"
    )
    assert (out / "report.html").exists()
