"""Rotations in every form, compared with scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from oatkit.data.rotations import FORMS, read_rotations, write_rotations


def random_rotations(seed: int) -> Rotation:
    return Rotation.random(20, random_state=seed)


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 2**31))
def test_what_is_written_reads_as_the_same_rotation(form: str, seed: int) -> None:
    rotations = random_rotations(seed)
    numbers = write_rotations(form, rotations)
    assert numbers.shape == (20, FORMS[form])
    again = read_rotations(form, numbers, is_data=True)
    assert (again.inv() * rotations).magnitude().max() < 1e-6


@given(seed=st.integers(0, 2**31))
def test_forms_are_those_of_scipy(seed: int) -> None:
    rotations = random_rotations(seed)
    np.testing.assert_allclose(
        write_rotations("euler", rotations), rotations.as_euler("xyz"), atol=1e-7
    )
    np.testing.assert_allclose(write_rotations("axis-angle", rotations), rotations.as_rotvec())
    np.testing.assert_allclose(
        write_rotations("quaternion", rotations), rotations.as_quat(canonical=True)
    )
    columns = write_rotations("6d", rotations)
    np.testing.assert_allclose(columns[:, :3], rotations.as_matrix()[:, :, 0])
    np.testing.assert_allclose(columns[:, 3:], rotations.as_matrix()[:, :, 1])


def test_a_pitch_of_a_quarter_turn_has_yaw_0() -> None:
    for pitch in (np.pi / 2, -np.pi / 2):
        rotation = Rotation.from_euler("xyz", [[0.3, pitch, 0.8]])
        angles = write_rotations("euler", rotation)
        assert angles[0, 2] == 0
        again = read_rotations("euler", angles, is_data=True)
        assert (again.inv() * rotation).magnitude().max() < 1e-6


@pytest.mark.parametrize(
    "columns", [[0] * 6, [1, 0, 0, 2, 0, 0], [0, 0, 0, 0, 1, 0], [1e-20, 0, 0, 0, 0, 1]]
)
def test_predicted_columns_without_a_direction_are_some_rotation(columns: list[float]) -> None:
    rotation = read_rotations("6d", np.array([columns], float), is_data=False)
    np.testing.assert_allclose(np.linalg.det(rotation.as_matrix()), 1)


def test_recorded_numbers_without_a_direction_are_errors() -> None:
    with pytest.raises(ValueError, match=r"a quaternion of norm 0 \(0, 0, 0, 0\) is no rotation"):
        read_rotations("quaternion", np.zeros((2, 4)), is_data=True)
    columns = np.array([[1, 0, 0, 0, 1, 0], [1, 0, 0, 1, 0, 0]], float)
    with pytest.raises(ValueError, match=r"two columns that span no plane .* found in row 1 of 2"):
        read_rotations("6d", columns, is_data=True)


def test_of_numbers_that_mean_the_same_the_nearest_are_written() -> None:
    half = Rotation.from_rotvec([[np.pi - 0.1, 0, 0], [np.pi + 0.1, 0, 0]])
    vectors = write_rotations("axis-angle", half, (np.pi, 0, 0))
    np.testing.assert_allclose(vectors[:, 0], [np.pi - 0.1, np.pi + 0.1])
    quaternions = write_rotations("quaternion", half, (-1, 0, 0, 0))
    assert (quaternions[:, 0] < 0).all()
