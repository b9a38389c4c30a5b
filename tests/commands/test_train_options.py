"""The flags of training: two commands share them, and only those that are typed change a recipe."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from rich.console import Console

import oatkit
from oatkit import cli
from oatkit.commands import tokenizer_train
from oatkit.commands.policy_train import TrainPolicy
from oatkit.commands.tokenizer_train import TrainTokenizer
from oatkit.commands.train_options import TrainOptions
from oatkit.jobs.step_planning import TRIAL_CHUNKS
from oatkit.train import TrainConfig

FLAGS = (
    "--steps 5 --optimizer soap --trackers wandb tensorboard --precision bfloat16 --seed 3 "
    "--schedule cosine --warmup-steps 2 --checkpoint-every 4 --keep-checkpoints 3 "
    "--evaluate-every 6 --skip-steps 7 8"
)


@pytest.mark.parametrize("options", [TrainTokenizer, TrainPolicy])
def test_commands_share_the_flags(options: type) -> None:
    words = ["--data", "d", "--out", "o", *FLAGS.split()]
    parsed = cli._parse(options, "", words)
    assert parsed.training.changes() == {
        "steps": 5,
        "optimizer": "soap",
        "schedule": "cosine",
        "warmup_steps": 2,
        "precision": "bfloat16",
        "seed": 3,
        "checkpoint_every": 4,
        "keep_checkpoints": 3,
        "evaluate_every": 6,
        "skip_steps": (7, 8),
        "trackers": ("wandb", "tensorboard"),
    }
    assert parsed == options("d", Path("o"), training=parsed.training)


def test_flags_are_settings_of_a_recipe() -> None:
    assert {field.name for field in fields(TrainOptions)} - {"minutes"} <= {
        field.name for field in fields(TrainConfig)
    }
    assert TrainOptions().changes() == {"seed": 0, "skip_steps": (), "trackers": ()}


@pytest.mark.parametrize("command", ["tokenizer", "policy"])
def test_required_options_come_first_in_the_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "train", "--help"])
    shown = capsys.readouterr().out
    places = [shown.index(f"--{name} ") for name in ("data", "out", "preset", "steps", "fps")]
    assert places == sorted(places)


def test_minutes_bound_the_training(data: Path, tmp_path: Path) -> None:
    """A thousandth of a second holds one step, or as few chunks as a trial has."""
    out, flags = tmp_path / "oat", ("--preset", "tiny", "--horizon", "8", "--minutes", "1e-5")
    train = ["tokenizer", "train", "--data", str(data), "--kind", "oat", "--out", str(out)]
    assert cli.main([*train, *flags]) == 0
    assert oatkit.load_tokenizer(out).extras["train"]["steps"] == 1
    assert json.loads((out / "minutes.json").read_text()) == {"minutes": 1e-5, "steps": 1}
    assert cli.main([*train, *flags, "--steps", "3"]) == 2
    fitted = ["tokenizer", "train", "--data", str(data), "--kind", "klt", "--out", f"{out}2"]
    assert cli.main([*fitted, *flags]) == 0
    assert oatkit.load_tokenizer(f"{out}2").extras["fit"]["num_chunks"] <= TRIAL_CHUNKS
    policy = ["policy", "train", "--data", str(data), "--tokenizer", str(out)]
    more = ["--preset", "tiny", "--minutes", "1e-5", "--out", str(tmp_path / "policy")]
    assert cli.main([*policy, *more]) == 0
    assert oatkit.load_policy(tmp_path / "policy").extras["train"]["steps"] == 1


def test_a_quiet_console_shows_no_progress(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = TrainTokenizer(
        str(data), tmp_path / "oat", kind="oat", preset="tiny", horizon=8, device="cpu"
    )
    assert tokenizer_train.run(options, Console(quiet=True)) == 0
    assert capfd.readouterr() == ("", "")
