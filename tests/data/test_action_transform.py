"""Each representation of actions is a pair: what is applied is inverted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from oatkit.data.action_transform import ActionTransform
from oatkit.data.statistics import compute_statistics

ACTIONS = ("x", "y", "z", "a", "b", "c", "w", "gripper")
STATES = ("time", *ACTIONS)


def numbers(*shape: int) -> st.SearchStrategy[np.ndarray]:
    """Arrays within -3 .. 3, some of them with many zeros and repeated values."""

    def draw(seed: int, digits: int) -> np.ndarray:
        return np.random.default_rng(seed).uniform(-3, 3, shape).round(digits)

    return st.builds(draw, st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 6]))


CHUNKS, STATE_ROWS = numbers(3, 5, 8), numbers(3, 9)


def transform_of(words: str) -> ActionTransform:
    return ActionTransform.parse(words, ACTIONS, STATES)


def with_unit_quaternions(chunks: np.ndarray, dims: slice) -> np.ndarray:
    """The same with rotations at some dimensions, the w positive."""
    quaternions = chunks[..., dims] + np.array([0, 0, 0, 4.0])
    found = chunks.copy()
    found[..., dims] = quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True)
    return found


@pytest.mark.parametrize(
    "words",
    [
        "absolute",
        "delta",
        "delta:0-2,7",
        "relative",
        "relative:x,y delta:z absolute:gripper",
        "relative:0-2@3,4,5",
        "unwrap:3-5",
        "unwrap:3-5 relative:0-5",
        "unwrap:3-5@-4,4 delta",
    ],
)
@given(chunks=CHUNKS, state=STATE_ROWS)
def test_numbers_come_back(words: str, chunks: np.ndarray, state: np.ndarray) -> None:
    transform = transform_of(words)
    back = transform.invert(transform.apply(chunks, state), state)
    np.testing.assert_allclose(back, chunks, atol=1e-9)


@pytest.mark.parametrize("target", ["quaternion", "axis-angle", "euler", "6d"])
@pytest.mark.parametrize("reference", ["", "delta:0-6", "relative:0-6"])
@given(chunks=CHUNKS, state=STATE_ROWS)
def test_rotations_come_back(
    reference: str, target: str, chunks: np.ndarray, state: np.ndarray
) -> None:
    transform = transform_of(f"quaternion-to-{target}:3-6 {reference}")
    chunks = with_unit_quaternions(chunks, slice(3, 7))
    state = with_unit_quaternions(state[None], slice(4, 8))[0]
    represented = transform.apply(chunks, state)
    assert represented.shape == (3, 5, transform.dim)
    back = transform.invert(represented, state)
    np.testing.assert_allclose(back[..., :3], chunks[..., :3], atol=1e-9)
    np.testing.assert_allclose(back[..., 7], chunks[..., 7], atol=1e-9)
    same = np.abs((back[..., 3:7] * chunks[..., 3:7]).sum(axis=-1))  # q and -q are one rotation
    np.testing.assert_allclose(same, 1, atol=1e-7)


@pytest.mark.parametrize("source", ["axis-angle", "euler"])
@given(chunks=CHUNKS)
def test_other_forms_come_back_as_the_same_rotation(source: str, chunks: np.ndarray) -> None:
    transform = transform_of(f"{source}-to-6d:3-5")
    back = transform.invert(transform.apply(chunks))
    read = (
        Rotation.from_rotvec if source == "axis-angle" else lambda v: Rotation.from_euler("xyz", v)
    )
    turns = read(back[..., 3:6].reshape(-1, 3)).inv() * read(chunks[..., 3:6].reshape(-1, 3))
    assert turns.magnitude().max() < 1e-6


@given(chunks=CHUNKS, noise=CHUNKS)
def test_any_numbers_decode_to_finite_actions(chunks: np.ndarray, noise: np.ndarray) -> None:
    transform = transform_of("quaternion-to-6d:3-6 delta:0-6 binary:7@0,1")
    represented = np.concatenate([chunks, noise[..., :2]], axis=-1)
    actions = transform.invert(represented)
    assert np.isfinite(actions).all()
    np.testing.assert_allclose(np.linalg.norm(actions[..., 3:7], axis=-1), 1, atol=1e-9)
    assert set(np.unique(actions[..., 7])) <= {0.0, 1.0}


@given(chunks=CHUNKS)
def test_a_binary_dimension_takes_the_nearer_value_and_stays(chunks: np.ndarray) -> None:
    transform = transform_of("binary:7@-1,2")
    once = transform.apply(chunks)
    np.testing.assert_array_equal(transform.invert(once), once)
    np.testing.assert_array_equal(once[..., 7], np.where(chunks[..., 7] > 0.5, 2, -1))


def test_relative_is_less_the_state_of_the_same_name() -> None:
    chunks, state = np.zeros((1, 2, 8)), np.arange(9.0)[None]
    represented = transform_of("relative:x,gripper").apply(chunks, state)
    assert represented[0, 1].tolist() == [-1, 0, 0, 0, 0, 0, 0, -8]


def test_delta_is_less_the_action_before() -> None:
    chunks = np.cumsum(np.ones((1, 4, 8)), axis=1) + 10
    represented = transform_of("delta:0").apply(chunks)
    assert represented[0, :, 0].tolist() == [11, 1, 1, 1]
    assert represented[0, :, 1].tolist() == [11, 12, 13, 14]


def test_unwrapped_angles_go_on_past_half_a_turn_and_start_near_the_state() -> None:
    angles = np.array([3.0, -3.1, -2.9])
    chunks = np.zeros((1, 3, 8))
    chunks[0, :, 3] = angles
    turn = 2 * np.float32(np.pi)
    unwrapped = transform_of("unwrap:3").apply(chunks)[0, :, 3]
    np.testing.assert_allclose(unwrapped, [3.0, turn - 3.1, turn - 2.9])
    state = np.zeros((1, 9))
    state[0, 4] = -3.0
    relative = transform_of("unwrap:3 relative:3").apply(chunks, state)[0, :, 3]
    np.testing.assert_allclose(relative, [6.0 - turn, -0.1, 0.1], atol=1e-6)


def test_a_rotation_is_relative_as_a_turn_from_the_state() -> None:
    start, goal = Rotation.from_euler("xyz", [0.3, 0.2, 1.0]), Rotation.from_euler("xyz", [1, 0, 2])
    chunks, state = np.zeros((1, 1, 8)), np.zeros((1, 9))
    chunks[0, 0, 3:7], state[0, 4:8] = goal.as_quat(), start.as_quat()
    transform = transform_of("quaternion-to-axis-angle:3-6 relative:3-6")
    found = transform.apply(chunks, state)[0, 0, 3:6]
    np.testing.assert_allclose(found, (start.inv() * goal).as_rotvec(), atol=1e-9)


def test_numbers_of_one_rotation_come_back_on_the_side_of_the_data() -> None:
    down = Rotation.from_euler("x", np.pi + np.linspace(-0.2, 0.2, 5)[:, None])  # w is about 0
    quaternions = down.as_quat() * np.sign(down.as_quat()[:, :1])
    chunks = np.zeros((1, 5, 8))
    chunks[0, :, 3:7] = quaternions
    statistics = compute_statistics(lambda: [chunks[0]], dim=8)
    transform = transform_of("quaternion-to-6d:3-6").fitted(statistics)
    np.testing.assert_allclose(transform.invert(transform.apply(chunks)), chunks, atol=1e-9)
    vectors = chunks.copy()
    vectors[0, :, 3:6] = down.as_rotvec() * np.sign(down.as_rotvec()[:, :1])
    statistics = compute_statistics(lambda: [vectors[0]], dim=8)
    transform = transform_of("axis-angle-to-6d:3-5").fitted(statistics)
    back = transform.invert(transform.apply(vectors))[0, :, 3]
    assert (back > 2.5).all()


def test_what_is_fitted_is_printed_and_read_again() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    rows[:, 6] = 1
    statistics = compute_statistics(lambda: [rows], dim=8)
    transform = transform_of("relative:0-2 quaternion-to-6d:5,4,3,6 binary:7").fitted(statistics)
    again = ActionTransform.from_json(transform.to_json())
    assert again == transform
    assert str(transform).startswith("relative:0-2@1-3 binary:7@-")
    constant = transform_of("binary:6").fitted(statistics)
    assert str(constant) == "absolute"


def test_torch_keeps_its_type_and_device() -> None:
    transform = transform_of("delta")
    chunks = torch.randn(2, 3, 8, dtype=torch.float32)
    represented = transform.apply(chunks)
    assert isinstance(represented, torch.Tensor)
    assert represented.dtype == torch.float32
    torch.testing.assert_close(transform.invert(represented), chunks)


def test_one_state_may_be_for_all_chunks() -> None:
    transform, chunks = transform_of("relative:0"), np.ones((2, 3, 8))
    state = np.arange(9.0)
    both = transform.apply(chunks, np.stack([state, state]))
    np.testing.assert_array_equal(transform.apply(chunks, state), both)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "the actions relative:0@1 are relative to the state at the start of their chunk"),
        (np.ones((2, 8)), r"the state is \(2, 8\), expected \(2, 9\)"),
        (np.ones((3, 9)), r"the state is \(3, 9\), expected \(2, 9\)"),
    ],
)
def test_a_missing_or_wrong_state_is_an_error(state: object, message: str) -> None:
    transform = transform_of("relative:0")
    for change in (transform.apply, transform.invert):
        with pytest.raises(ValueError, match=message):
            change(np.ones((2, 3, 8)), state)


def test_a_quaternion_of_norm_0_is_an_error_in_data() -> None:
    with pytest.raises(
        ValueError, match=r"a quaternion of norm 0 .* is no rotation, found in row 0"
    ):
        transform_of("quaternion-to-6d:3-6").apply(np.zeros((1, 2, 8)))


def test_chunks_of_another_size_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"chunks are \(1, 2, 7\), expected \(batch, steps, 8\)"):
        transform_of("delta:0").apply(np.zeros((1, 2, 7)))
