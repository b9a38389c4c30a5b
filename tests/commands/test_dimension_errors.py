"""Errors of each dimension: names in full, and the units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oatkit.commands.dimension_errors import dimension_errors
from oatkit.data.statistics import compute_statistics
from oatkit.tokenizers.data_facts import DataFacts

NAMES = ("kLeftShoulderPitchOfTheHumanoid", "kLeftShoulderPitchOfTheRobot")
FACTS = DataFacts(
    compute_statistics(lambda: [np.outer(np.arange(9.0), (1, 100))], dim=2),
    action_names=NAMES,
)


def test_long_names_stand_in_full_beside_errors_of_every_budget() -> None:
    lines = dimension_errors(FACTS, {"1": (0.5, 20.0), "16": (0.25, 10.0)}).plain.splitlines()
    assert lines[0].split() == ["dimension", "std", "1", "16"]
    assert lines[1].split() == [NAMES[0], "2.6", "0.5", "0.25"]
    assert lines[2].split() == [NAMES[1], "2.6e+02", "20", "10"]
    assert "in the units of the data" in lines[3]


def test_the_spread_of_predictions_stands_beside_them() -> None:
    lines = dimension_errors(FACTS, {"auto": (0.5, 20.0)}, (0.5, None)).plain.splitlines()
    assert lines[0].split()[-1] == "variance"
    assert [line.split()[-1] for line in lines[1:3]] == ["0.50", "constant"]
    assert "variance: that of the predicted actions" in lines[3]


def test_a_policy_of_which_nothing_decodes_and_data_without_names() -> None:
    lines = dimension_errors(replace(FACTS, action_names=()), {"8": ()}).plain.splitlines()
    assert [line.split() for line in lines[:2]] == [["dimension", "std"], ["action_0", "2.6"]]
