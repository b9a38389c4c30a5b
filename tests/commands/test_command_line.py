"""A command line made of options parses to them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oatkit import cli
from oatkit.commands.command_line import command_line
from oatkit.commands.data_make_metaworld import MakeMetaWorld
from oatkit.commands.policy_eval import EvalPolicy
from oatkit.commands.policy_sweep import SweepPolicy
from oatkit.commands.policy_train import TrainPolicy
from oatkit.commands.tokenizer_compare import CompareTokenizers
from oatkit.commands.tokenizer_train import TrainTokenizer
from oatkit.commands.train_options import TrainOptions
from oatkit.jobs.metaworld_demonstrations import Demonstrations
from oatkit.types import Sampling


@pytest.mark.parametrize(
    ("command", "options", "positional"),
    [
        (
            "data make metaworld",
            MakeMetaWorld(
                Path("a b"), Demonstrations(("reach", "push"), 3, images=True, shadows=False)
            ),
            None,
        ),
        (
            "tokenizer compare",
            CompareTokenizers("d", Path("c"), ("oat", "fast"), minutes=0.4, levels=(8, 5)),
            None,
        ),
        (
            "policy train",
            replace(
                TrainPolicy("d", Path("p"), Path("t"), state=False, training=TrainOptions(steps=7)),
                columns=replace(TrainPolicy("", Path()).columns, state_key=("x", "y")),
            ),
            None,
        ),
        ("policy eval", EvalPolicy(Path("p"), Path("e"), budgets=(1, 8, "auto")), "policy"),
        (
            "policy eval",
            EvalPolicy(Path("p"), Path("e"), sampling=Sampling(0.5, top_k=None, seed=None)),
            "policy",
        ),
        (
            "tokenizer train",
            TrainTokenizer(
                "d",
                Path("t"),
                nested_dropout=False,
                training=TrainOptions(optimizer="soap", trackers=("wandb", "trackio"), seed=2),
            ),
            None,
        ),
        ("policy sweep", SweepPolicy("d", Path("s.json"), sampling=Sampling(0.0, seed=0)), None),
    ],
)
def test_a_command_line_parses_to_its_options(
    command: str, options: Any, positional: str | None
) -> None:
    words = shlex.split(command_line(command, options, positional=positional))
    assert words[: 1 + len(command.split())] == ["oatkit", *command.split()]
    assert cli._parse(type(options), "", words[1 + len(command.split()) :]) == options
