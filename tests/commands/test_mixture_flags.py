"""What training on a mixture refuses and says, whatever is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.commands.mixture_flags import measure_first, refuse_with_mixture
from oatkit.data.mixture import open_mixture
from tests.policies import tiny


def test_a_flag_of_one_dataset_is_refused_where_it_is_given() -> None:
    refuse_with_mixture({"init": None, "minutes": None})
    with pytest.raises(ValueError, match="--minutes is for one dataset, not for a mixture"):
        refuse_with_mixture({"init": None, "minutes": 0.0})


def test_the_first_robot_is_measured_next(tmp_path: Path) -> None:
    paths = [tiny.write_dataset(tmp_path / f"arm {name}") for name in "ab"]
    mixture = open_mixture({path.name: str(path) for path in paths})
    said = measure_first("policy measure", mixture, Path("out"))
    assert said == f"next: oatkit policy measure 'out/arm a' --data '{paths[0]}'"
