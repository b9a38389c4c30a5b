"""Conversions that cannot be: said before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.data import open_dataset
from oatkit.jobs.conversion_plan import Conversion, ConversionPlan
from tests.data import datasets
from tests.data.datasets import make_demos


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three episodes at 10 Hz, with images."""
    return datasets.write_npz_folder(tmp_path / "source", make_demos(), images=True)


@pytest.mark.parametrize(
    ("actions", "wanted", "message"),
    [
        ("delta", {}, "delta:0-2 depends on where a chunk starts, .* declare it with --declare"),
        (None, {"tasks": ("fly",)}, "unknown task 'fly'"),
        (None, {"cameras": ("back",)}, "unknown camera 'back'"),
        (None, {"columns": ("fpss",)}, "unknown column 'fpss'"),
        (None, {"columns": ("action=action",)}, "two columns would be named 'action'"),
        (None, {"resample": 0}, "LeRobot has whole frames a second, not 0"),
        (None, {"shift_actions": 7}, "episode 1 has no frames left after --shift-actions 7"),
        (None, {"shift_actions": -1}, "shift_actions is -1"),
        (None, {"declare": ("delta:8",)}, "names action dimension 8"),
    ],
)
def test_wrong_wishes_are_errors(
    source: Path, actions: str | None, wanted: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ConversionPlan.of(open_dataset(source, actions=actions), Conversion(**wanted))  # type: ignore[arg-type]


def test_a_rate_that_nobody_knows_is_asked_for() -> None:
    with pytest.raises(ValueError, match=r"does not say its frames a second: .* --fps"):
        ConversionPlan.of(open_dataset(np.ones((4, 2))), Conversion())
