"""The places of robots in what a network for all of them reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.data.mixture import open_mixture
from oatkit.jobs.mixture_policies import cameras_of_robots
from tests.jobs.mixed_robots import robot, robot_on_disk


def test_each_robot_reads_those_of_the_named_cameras_that_it_has(tmp_path: Path) -> None:
    seeing = robot_on_disk(tmp_path / "seeing", 2, "front", 40)
    mixture = open_mixture({"seeing": seeing, "blind": robot(3, 1.0, 10, 3)})
    wanted = {"seeing": ("front",), "blind": ()}
    assert cameras_of_robots(mixture, ("front",)) == wanted
    assert cameras_of_robots(mixture, {"seeing": ["front"]}) == wanted
    assert cameras_of_robots(mixture, ()) == {"seeing": (), "blind": ()}
    with pytest.raises(ValueError, match="unknown camera 'frnt'; known, closest first: front"):
        cameras_of_robots(mixture, ("frnt",))
    with pytest.raises(ValueError, match="unknown embodiment 'third'"):
        cameras_of_robots(mixture, {"third": ["front"]})
