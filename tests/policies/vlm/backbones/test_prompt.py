"""The slots of a context: which count, and where they are."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.policies.vlm.backbones.prompt import Part, chat_prompt, lay_out


def test_positions_are_two_dimensional_where_images_are() -> None:

    parts = [
        Part("image", num_slots=4, image=0, grid=(2, 2)),
        Part("text", (5,), image=0),
        Part("task"),
    ]
    task = torch.tensor([[8, 9], [8, -1]])
    slots = lay_out(parts, task, torch.tensor([[True], [False]]), first=0)
    assert slots.positions[:, 0].tolist() == [
        [0, 0, 0, 0, 2, 3, 4],
        [0, 0, 1, 1, 2, 3, 4],
        [0, 1, 0, 1, 2, 3, 4],
    ]
    assert slots.length.tolist() == [5, 1]
    assert slots.is_real[1].tolist() == [False] * 5 + [True, False]


def test_a_chat_prompt_holds_images_the_task_and_states_in_order() -> None:
    """Letters stand for ids."""

    def to_ids(text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    words = {"opening": "o", "user": "u", "around_image": ("<", ">"), "answer": "a"}
    parts = chat_prompt(to_ids, [(4, (2, 2)), (6, None)], 2, **words)
    assert parts == [
        Part("text", to_ids("ou")),
        Part("text", to_ids("<"), image=0),
        Part("image", num_slots=4, image=0, grid=(2, 2)),
        Part("text", to_ids(">"), image=0),
        Part("text", to_ids("<"), image=1),
        Part("image", num_slots=6, image=1),
        Part("text", to_ids(">"), image=1),
        Part("task"),
        Part("state", num_slots=2),
        Part("text", to_ids("a")),
    ]
    assert [len(part) for part in parts] == [2, 1, 4, 1, 1, 6, 1, 0, 2, 1]
    blind = chat_prompt(to_ids, [], 0, **words)
    assert blind == [Part("text", to_ids("o")), Part("task"), Part("text", to_ids("a"))]


@given(st.lists(st.booleans(), min_size=2, max_size=2), st.integers(0, 3), st.integers(0, 5))
def test_positions_count_the_slots_that_count(
    is_seen: list[bool], num_words: int, first: int
) -> None:
    """One-dimensional positions go up by one at every real slot, whatever lies between."""
    parts = [
        Part("text", (1,)),
        Part("image", num_slots=3, image=0),
        Part("image", num_slots=2, image=1),
        Part("task"),
        Part("state", num_slots=1),
    ]
    task = torch.tensor([[7] * num_words + [-1] * (3 - num_words)])
    slots = lay_out(parts, task, torch.tensor([is_seen]), first)
    wanted = [True, *[is_seen[0]] * 3, *[is_seen[1]] * 2]
    wanted += [word < num_words for word in range(3)] + [True]
    assert slots.is_real[0].tolist() == wanted
    assert slots.is_image.tolist() == [False] + [True] * 5 + [False] * 4
    count = sum(wanted)
    for positions in slots.positions[:, 0]:
        assert positions[slots.is_real[0]].tolist() == list(range(first, first + count))
    assert slots.length.tolist() == [first + count]
