"""Choices of the command line are the names of the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import pytest
import tyro

from oatkit.commands import choices
from oatkit.policies.policy_table import POLICIES
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.presets import POLICY_PRESETS, TOKENIZER_PRESETS, VLM_PRESETS
from oatkit.tokenizers import KINDS
from oatkit.train import TRACKERS
from oatkit.train.optimizers import OPTIMIZERS


@pytest.mark.parametrize(
    ("choice", "table"),
    [
        (choices.KindName, KINDS),
        (choices.TokenizerPresetName, TOKENIZER_PRESETS),
        (choices.PolicyPresetName, {**POLICY_PRESETS, **VLM_PRESETS}),
        (choices.PolicyName, POLICIES),
        (choices.FamilyName, FAMILIES),
        (choices.OptimizerName, OPTIMIZERS),
        (choices.TrackerName, TRACKERS),
    ],
)
def test_choices_are_the_names_of_a_table(choice: Any, table: Any) -> None:
    assert get_args(choice) == tuple(table)


def test_a_sweep_takes_the_kinds_that_have_what_it_varies() -> None:
    assert get_args(choices.SweptKindName) == ("oat", "oat-pow2")


def test_the_help_of_a_setting_names_its_kinds_and_their_default() -> None:
    assert (
        choices.kind_help("levels", "FSQ levels")
        == "FSQ levels (oat, oat-pow2, quest, klt); 8 8 6 5 by default."
    )
    assert choices.kind_help("scale", "Scale") == "Scale (fast); 10.0 by default."
    assert choices.kind_help("refine", "Tokens", "none").endswith("; none by default.")


def test_a_new_row_is_a_new_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "mine", KINDS["oat"])
    assert choices.kinds_with("nested_dropout") == ("oat", "oat-pow2", "mine")
    assert choices.kind_help("nested_dropout", "Nested").startswith("Nested (oat, oat-pow2, mine)")


def test_wrong_choices_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass(frozen=True)
    class Options:
        kind: choices.KindName = "oat"

    Options.__annotations__["kind"] = choices.KindName
    assert tyro.cli(Options, args=["--kind", "klt"]).kind == "klt"
    with pytest.raises(SystemExit):
        tyro.cli(Options, args=["--kind", "vqbet"])
    assert "oat-pow2" in capsys.readouterr().err
