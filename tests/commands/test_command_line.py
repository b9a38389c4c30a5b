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
from oatkit.commands.policy_train import TrainPolicy
from oatkit.commands.tokenizer_compare import CompareTokenizers
from oatkit.commands.train_options import TrainOptions
from oatkit.jobs.metaworld_demonstrations import Demonstrations


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
    ],
)
def test_a_command_line_parses_to_its_options(
    command: str, options: Any, positional: str | None
) -> None:
    words = shlex.split(command_line(command, options, positional=positional))
    assert words[: 1 + len(command.split())] == ["oatkit", *command.split()]
    assert cli._parse(type(options), "", words[1 + len(command.split()) :]) == options
