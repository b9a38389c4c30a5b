from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.envs.simulator import (
    GOALS_PER_SEED,
    checked_action,
    demonstration_seed,
    evaluation_seed,
    require_cameras,
)
from oatkit.errors import MissingExtraError
from tests.evaluation.plane import PLANE

# Seeds

goal_numbers = st.integers(0, GOALS_PER_SEED - 1)
seeds = st.integers(0, 2**40)


@given(seeds, goal_numbers, seeds, goal_numbers)
def test_demonstrations_and_evaluations_never_share_a_seed(
    seed: int, attempt: int, other_seed: int, episode: int
) -> None:
    assert demonstration_seed(seed, attempt) % 2 == 0
    assert evaluation_seed(other_seed, episode) % 2 == 1


@given(seeds, goal_numbers, seeds, goal_numbers)
def test_no_two_attempts_share_a_seed(seed: int, attempt: int, other: int, number: int) -> None:
    is_same = (seed, attempt) == (other, number)
    assert (demonstration_seed(seed, attempt) == demonstration_seed(other, number)) == is_same
    assert (evaluation_seed(seed, attempt) == evaluation_seed(other, number)) == is_same


def test_seeds_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="the seed is -1, expected 0 or more"):
        demonstration_seed(-1, 0)
    with pytest.raises(ValueError, match="a seed has goals 0 to 999999, asked for 1000000"):
        evaluation_seed(0, 1_000_000)


# What a kind says


def test_a_task_may_have_the_simulators_own_ending() -> None:
    from oatkit.envs.metaworld import METAWORLD

    assert METAWORLD.task_name("reach-v3") == METAWORLD.task_name("reach") == "reach"
    with pytest.raises(ValueError, match="unknown metaworld task 'rech'; known, closest first: re"):
        METAWORLD.task_name("rech")


def test_bounds_are_arrays() -> None:
    for bound, expected in zip(PLANE.bounds, (-1, 1), strict=True):
        np.testing.assert_array_equal(bound, np.full(2, expected, np.float32))
        assert bound.dtype == np.float32


def test_cameras_are_checked() -> None:
    assert PLANE.checked_cameras({}) == {}
    assert PLANE.checked_cameras({"below": (4, 6)}) == {"below": (4, 6)}
    with pytest.raises(ValueError, match="unknown camera of plane 'tap'; known, closest first: t"):
        PLANE.checked_cameras({"tap": (4, 6)})
    with pytest.raises(ValueError, match="the image of camera 'top' is 4 x 0, expected height and"):
        PLANE.checked_cameras({"top": (4, 0)})
    with pytest.raises(ValueError, match="make the simulator with cameras="):
        require_cameras({})


# Actions


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2))
def test_an_action_within_the_bounds_is_left_as_it_is(action: list[float]) -> None:
    found = checked_action(action, PLANE)
    assert found.dtype == np.float32
    assert found.tolist() == action


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([0.0], r"an action has shape \(1,\), expected \(2,\)"),
        ([0.0, np.inf], r"an action is not finite: \[0.0, inf\]"),
        ([0.0, -1.5], r"an action is outside \[-1, 1\]: \[0.0, -1.5\]; clip it first"),
    ],
)
def test_a_wrong_action_is_never_clipped(action: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_action(action, PLANE)


# Packages


def test_versions_of_packages_or_the_extra_that_installs_them() -> None:
    assert PLANE.package_versions() == {"numpy": np.__version__}
    missing = replace(PLANE, packages=("numpy", "no-such-package"), extra="pusht")
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[pusht\]'"):
        missing.package_versions()
