"""A command line made of options parses to them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oatkit import cli
from oatkit.commands.command_line import command_line, with_flags
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
        ("policy eval", EvalPolicy(Path("p"), out=Path("e"), budgets=(1, 8, "auto")), "policy"),
        (
            "policy eval",
            EvalPolicy(Path("p"), out=Path("e"), sampling=Sampling(0.5, top_k=None, seed=None)),
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


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("batch_size is 0, expected 1", "--batch-size is 0, expected 1"),
        ("steps is 0, expected at least 1", "--steps is 0, expected at least 1"),
        ("levels are [1], expected 2", "--levels are [1], expected 2"),
        ("a run with another batch_size, horizon", "a run with another --batch-size, horizon"),
        ("name it with --state-key (state_key=)", "name it with --state-key"),
        ("or go on with --held-out (held_out)", "or go on with --held-out"),
        ("out/batch_size/a.batch_size is gone", "out/batch_size/a.batch_size is gone"),
        ("unknown column 'state_key'", "unknown column 'state_key'"),
        ("all steps is too many", "all steps is too many"),
        ("horizon 550 is longer", "--horizon 550 is longer"),
        ("made with another preset (was tiny)", "made with another --preset (was tiny)"),
        ("made with another preset", "made with another preset"),
        ("top_k is -1", "top_k is -1"),
    ],
)
def test_a_message_names_what_was_typed(message: str, told: str) -> None:
    assert with_flags(message, TrainTokenizer) == told


@given(st.text())
def test_a_message_without_options_stays(message: str) -> None:
    assume("_" not in message)
    assert with_flags(f"so {message}", TrainTokenizer) == f"so {message}"
