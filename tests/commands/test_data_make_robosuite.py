"""`oatkit data make robosuite` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.cli import main
from oatkit.storage.records import read_record
from oatkit.types import PolicyEvaluation
from tests.envs.robosuite_install import skip_without_robosuite


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
