"""Rotations as numbers: quaternions, axis-angle vectors, Euler angles and two columns of a matrix.

| form         | numbers                                                                 |
|--------------|-------------------------------------------------------------------------|
| `quaternion` | x, y, z, w; a quaternion and its negative are the same rotation         |
| `axis-angle` | the axis times the angle in radians                                     |
| `euler`      | roll, pitch, yaw in radians, about the fixed axes x, then y, then z     |
| `6d`         | the first two columns of the rotation matrix, which never jump          |

Shape letters: N rotation, F number of a form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

FORMS = {"quaternion": 4, "axis-angle": 3, "euler": 3, "6d": 6}
"""Name of each form to how many numbers it has."""
SMALLEST_NORM = 1e-9
"""Below this a vector has no direction."""


def read_rotations(form: str, values_NF: NDArray[np.float64], *, is_data: bool) -> Rotation:
    """The rotations that numbers stand for.

    Args:
        form: Name of their form.
        values_NF: Numbers in this form; quaternions and columns need not be of length 1.
        is_data: Whether they were recorded, so that a vector without a direction is an error. What
            a network predicts is taken as near to its meaning as can be.
    """
    from scipy.spatial.transform import Rotation

    if form == "axis-angle":
        return Rotation.from_rotvec(values_NF)
    if form == "euler":
        return Rotation.from_euler("xyz", values_NF)
    if is_data:
        _require_directions(form, values_NF)
    if form == "quaternion":
        is_lost_N = np.linalg.norm(values_NF, axis=1) < SMALLEST_NORM
        return Rotation.from_quat(np.where(is_lost_N[:, None], [0.0, 0.0, 0.0, 1.0], values_NF))
    return Rotation.from_matrix(_orthonormal(values_NF))


def write_rotations(
    form: str, rotations: Rotation, center: tuple[float, ...] | None = None
) -> NDArray[np.float64]:
    """Numbers in a form, (N, F); the inverse of `read_rotations`.

    Args:
        form: Name of the form.
        rotations: Rotations to write.
        center: A place in the form: of the numbers that mean the same rotation, those that are
            nearest to it are taken. Data near a half turn would flip their sign otherwise.
    """
    if form == "6d":
        columns_NF: NDArray[np.float64] = np.concatenate(
            [rotations.as_matrix()[:, :, 0], rotations.as_matrix()[:, :, 1]], axis=1
        )
        return columns_NF
    if form == "euler":
        return _euler_angles(rotations.as_matrix())
    if form == "quaternion":
        values_NF: NDArray[np.float64] = rotations.as_quat()
        side_N = values_NF[:, 3] if center is None else values_NF @ np.asarray(center)
        return np.where(side_N[:, None] < 0, -values_NF, values_NF)
    vectors_NF: NDArray[np.float64] = rotations.as_rotvec()
    return vectors_NF if center is None else _nearest_vectors(vectors_NF, np.asarray(center))


def _require_directions(form: str, values_NF: NDArray[np.float64]) -> None:
    """Refuse recorded quaternions of norm 0, and columns that span no plane."""
    if form == "quaternion":
        is_lost_N = np.linalg.norm(values_NF, axis=1) < SMALLEST_NORM
        what = "a quaternion of norm 0"
    else:
        normal_N3 = np.cross(values_NF[:, :3], values_NF[:, 3:])
        is_lost_N = np.linalg.norm(normal_N3, axis=1) < SMALLEST_NORM
        what = "two columns that span no plane"
    if is_lost_N.any():
        number = int(np.argmax(is_lost_N))
        shown = ", ".join(f"{value:g}" for value in values_NF[number])
        raise ValueError(
            f"{what} ({shown}) is no rotation, found in row {number} of {len(values_NF)}: repair "
            "the recording, or leave these dimensions as they are"
        )


def _orthonormal(columns_N6: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation matrices, (N, 3, 3), of their first two columns as they were predicted."""
    first_N3 = _unit(columns_N6[:, :3], np.array([[1.0, 0.0, 0.0]]))
    rest_N3 = columns_N6[:, 3:] - (first_N3 * columns_N6[:, 3:]).sum(axis=1)[:, None] * first_N3
    # any direction across the first column: the axis that it has least of
    across_N3 = np.eye(3)[np.argmin(np.abs(first_N3), axis=1)]
    across_N3 = across_N3 - (first_N3 * across_N3).sum(axis=1)[:, None] * first_N3
    second_N3 = _unit(rest_N3, _unit(across_N3, across_N3))
    return np.stack([first_N3, second_N3, np.cross(first_N3, second_N3)], axis=2)


def _unit(vectors_N3: NDArray[np.float64], instead: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors of length 1; others where a vector has no direction."""
    norm_N1 = np.linalg.norm(vectors_N3, axis=1)[:, None]
    return np.where(norm_N1 < SMALLEST_NORM, instead, vectors_N3 / np.maximum(norm_N1, 1e-300))


def _euler_angles(matrix_N33: NDArray[np.float64]) -> NDArray[np.float64]:
    """Roll, pitch, yaw; where the pitch is a quarter turn, which leaves one of them open, yaw 0."""
    is_locked_N = np.abs(matrix_N33[:, 2, 0]) > 1 - 1e-12
    pitch_N = np.arcsin(np.clip(-matrix_N33[:, 2, 0], -1, 1))
    roll_N = np.arctan2(matrix_N33[:, 2, 1], matrix_N33[:, 2, 2])
    locked_N = np.arctan2(-matrix_N33[:, 1, 2], matrix_N33[:, 1, 1])
    yaw_N = np.arctan2(matrix_N33[:, 1, 0], matrix_N33[:, 0, 0])
    return np.stack(
        [np.where(is_locked_N, locked_N, roll_N), pitch_N, np.where(is_locked_N, 0.0, yaw_N)],
        axis=1,
    )


def _nearest_vectors(
    vectors_N3: NDArray[np.float64], center_3: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Axis-angle vectors, or the same rotation by a full turn more or less."""
    angle_N1 = np.linalg.norm(vectors_N3, axis=1)[:, None]
    axis_N3 = vectors_N3 / np.maximum(angle_N1, SMALLEST_NORM)
    choices_CN3 = np.stack([vectors_N3 + turn * axis_N3 for turn in (0, -2 * np.pi, 2 * np.pi)])
    best_N = np.argmin(np.linalg.norm(choices_CN3 - center_3, axis=2), axis=0)
    return choices_CN3[best_N, np.arange(len(vectors_N3))]
