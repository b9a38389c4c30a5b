"""Data unlike those of training are noticed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from oatkit.data import Statistics
from oatkit.data.statistics import compute_statistics
from oatkit.tokenizers.data_facts import DataFacts

NAMES = ("x", "y")


def statistics(*scales: float) -> Statistics:
    rows = np.random.default_rng(0).normal(size=(4000, len(scales))) * scales
    return compute_statistics(lambda: [rows], dim=len(scales))


FACTS = DataFacts(statistics(1.0, 10.0), "f00d", NAMES, 20.0, ("torque", "grip"), (0, 2))


def test_facts_survive_json() -> None:
    values = json.loads(json.dumps(FACTS.to_json()))
    back = DataFacts.from_json(values)
    assert back.to_json() == values
    assert (back.fingerprint, back.action_names, back.fps) == ("f00d", NAMES, 20.0)
    assert (back.action_keys, back.action_dims) == (("torque", "grip"), (0, 2))


def test_older_facts_know_no_columns() -> None:
    values = FACTS.to_json()
    del values["action_keys"], values["action_dims"]
    back = DataFacts.from_json(values)
    assert (back.action_keys, back.action_dims) == ((), None)


@pytest.mark.parametrize(
    ("scales", "fps", "said"),
    [
        ((1.0, 10.0), 20.0, []),
        ((1.0, 10.5), 20.0, []),
        ((1.0, 10.0), None, []),
        ((1.0, 10.0), 50.0, ["fps is 50, fitted on 20"]),
        ((1.0, 30.0), 20.0, ["dimension 1 ('y') drifted: 98 % lie between -6"]),
        ((3.0, 10.0), 50.0, ["fps is 50", "dimension 0 ('x') drifted"]),
        ((1.0, 1.0, 1.0), 20.0, ["actions have 3 dimensions, fitted on 2"]),
    ],
)
def test_differences_are_told(
    scales: tuple[float, ...], fps: float | None, said: list[str]
) -> None:
    found = FACTS.drift(statistics(*scales), NAMES, fps)
    assert len(found) == len(said)
    assert all(sentence.startswith(start) for sentence, start in zip(found, said, strict=True))
