"""Single steps of a representation; `test_action_transform` has what holds of all."""

from __future__ import annotations

import numpy as np
import pytest

from oatkit.data.action_steps import Binary, Delta, Relative, Turn, Unwrap

STATE = np.array([[10.0, 20.0]])


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Delta((1,)), [[1, 1], [2, 1], [3, 1]]),
        (Relative((0, 1), (1, 0)), [[-19, -9], [-18, -8], [-17, -7]]),
        (Binary((0,), (0.0, 3.0)), [[0, 1], [3, 2], [3, 3]]),
    ],
)
def test_a_step_changes_its_own_dimensions(
    step: Delta | Relative | Binary, expected: list[list[float]]
) -> None:
    chunk = np.array([[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]])
    step.apply(chunk, STATE)
    np.testing.assert_array_equal(chunk[0], expected)


def test_an_angle_comes_back_into_its_range() -> None:
    chunk = np.array([[[350.0], [10.0], [30.0]]])
    step = Unwrap((0,), 0.0, 360.0)
    step.apply(chunk, STATE)
    assert chunk.ravel().tolist() == [350, 370, 390]
    step.invert(chunk, STATE)
    assert chunk.ravel().tolist() == [350, 10, 30]


def test_a_turn_says_how_many_numbers_it_becomes() -> None:
    assert Turn((0, 1, 2), "euler", "6d").width == 6
