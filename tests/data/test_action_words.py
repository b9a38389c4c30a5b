"""What users type for the representation of actions, read and printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data.action_transform import ActionTransform
from oatkit.data.action_words import print_actions, read_actions

ACTIONS = ("x", "y", "z", "rx", "ry", "rz", "rw", "gripper")
STATES = ("time", *ACTIONS)


def parse(words: str | list[str]) -> ActionTransform:
    return ActionTransform.parse(words, ACTIONS, STATES)


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("absolute", "absolute"),
        ("absolute:0-7", "absolute"),
        ("delta", "delta:0-7"),
        ("delta:x,y,2", "delta:0-2"),
        ("relative", "relative:0-7@1-8"),
        ("relative:x,z", "relative:0,2@1,3"),
        ("relative:0-1@gripper,0", "relative:0-1@8,0"),
        ("delta binary:7@0,1", "delta:0-6 binary:7@0,1"),
        ("unwrap:rx,ry,rz", "unwrap:3-5"),
        ("unwrap:3-5@-180,180 delta:3-5", "delta:3-5 unwrap:3-5@-180,180"),
        ("unwrap:3-4 unwrap:5 relative:4", "relative:4@5 unwrap:3-5"),
        ("quaternion-to-6d:3-6", "quaternion-to-6d:3-6"),
        ("quaternion-to-6d:4,5,6,3", "quaternion-to-6d:4-6,3"),
        ("delta:0-5, unwrap:3,4,5, binary:7", "delta:0-5 unwrap:3-5 binary:7"),
        ("euler-to-6d:3-5 relative:0-5", "relative:0-5@1-6 euler-to-6d:3-5"),
        (" ", "absolute"),
    ],
)
def test_words_are_printed_in_one_form_that_reads_the_same(typed: str, printed: str) -> None:
    transform = parse(typed)
    assert str(transform) == printed
    assert str(parse(printed)) == printed
    assert parse(typed.split()) == transform


@given(
    st.lists(st.sampled_from(["absolute", "delta", "relative"]), min_size=8, max_size=8),
    st.sets(st.integers(0, 6)),
    st.booleans(),
)
def test_any_references_are_read_as_printed(
    references: list[str], angles: set[int], is_binary: bool
) -> None:
    words = [f"{name}:{dim}" for dim, name in enumerate(references[:7])]
    words += [f"unwrap:{dim}" for dim in angles]
    words += ["binary:7@0,1"] if is_binary else []
    steps, turns = read_actions(words, ACTIONS, STATES)
    printed = print_actions(steps, turns)
    assert print_actions(*read_actions(printed, ACTIONS, STATES)) == printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("deltas:0", "unknown way to represent actions 'deltas'; known, closest first: delta"),
        ("unwrap", "'unwrap' names no dimensions: unwrap:0-2, or unwrap:x"),
        ("delta:", "'delta:' names no dimensions"),
        ("delta:8", "'delta:8' names action dimension 8, there are 8: 0 to 7"),
        ("delta:3-1", "'delta:3-1' names action dimension 3-1"),
        ("delta:griper", "unknown action dimension 'griper'; known, closest first: gripper"),
        ("unwrap:3,3", r"dimension 3 \('rx'\) is named twice in 'unwrap:3,3'"),
        ("delta:0-3 delta:2", r"dimension 2 \('z'\) is named twice in 'delta:0-3 delta:2'"),
        ("delta:0 relative:0", r"dimension 0 \('x'\) is both delta and relative: name it once"),
        ("binary:7 delta:7", r"dimension 7 \('gripper'\) cannot be binary and delta"),
        (
            "unwrap:3 euler-to-6d:3-5",
            r"dimension 3 \('rx'\) cannot be unwrap and part of a rotation",
        ),
        ("quaternion-to-6d:3-5", "names 3 dimensions, a rotation as quaternion has 4"),
        ("quaternion-to-6d:3-6 delta:3", "is a rotation of which only a part is absolute or delta"),
        ("euler-to-6d:0-2 euler-to-quaternion:2-4", "two rotations share dimensions"),
        ("relative:0-1@0", "names 2 action and 1 state dimensions"),
        ("relative:0@9", "names state dimension 9, there are 9"),
        ("binary:7@1,0", "'binary:7@1,0': 1 is not below 0"),
        ("binary:7@1", "has '1' after the @, expected 2 numbers"),
        ("unwrap:3@a,b", "has 'a,b' after the @, expected 2 numbers"),
        ("unwrap:3@nan,inf", "expected 2 numbers"),
    ],
)
def test_wrong_words_are_one_clear_sentence(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(words)


def test_relative_needs_a_state_of_the_same_name_or_as_many() -> None:
    with pytest.raises(
        ValueError, match=r"'relative:0' needs the state, and there is none: .*--state-key"
    ):
        ActionTransform.parse("relative:0", ("a", "b"), ())
    with pytest.raises(
        ValueError, match=r"action 'a' has no state of its name, .* relative:0-2@0-2"
    ):
        ActionTransform.parse("relative:0", ("a", "b"), ("p", "q", "r"))
    same = ActionTransform.parse("relative:1", ("a", "b"), ("p", "q"))
    assert str(same) == "relative:1@1"
    assert same.state_dim == 2


def test_dimensions_that_are_named_by_numbers_are_indices() -> None:
    assert str(ActionTransform.parse("delta:1", ("1", "0"), ())) == "delta:1"
