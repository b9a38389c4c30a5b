"""Plans of several environments, of which each is asked for when it is due."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.types import Execution


@given(
    worth=st.lists(st.lists(st.integers(1, 6), min_size=12, max_size=12), min_size=1, max_size=3),
    blend=st.one_of(st.none(), st.floats(0, 2)),
    draws=st.integers(1, 3),
)
def test_environments_side_by_side_are_each_as_if_alone(
    worth: list[list[int]], blend: float | None, draws: int
) -> None:
    from lerobot_policy_oat.batch_plans import BatchPlans

    execution, scale = Execution("auto", blend, draws=draws), np.array([1.0, 20.0])
    plans = BatchPlans(execution, scale, len(worth))
    alone = [ActionPlan(execution, scale) for _ in worth]
    expected: list[list[list[float]]] = [[] for _ in worth]
    num_asked = [0] * len(worth)
    rng = np.random.default_rng(0)
    for step in range(12):
        due = plans.due
        assert due == [row for row, actions in enumerate(expected) if len(actions) == step]
        if due:
            chunks_RDTA = rng.normal(size=(len(due), draws, 6, 2)).astype(np.float32)
            steps = [worth[row][num_asked[row]] for row in due]
            plans.add(torch.from_numpy(chunks_RDTA), steps)
            for row, chunks_DTA, number in zip(due, chunks_RDTA, steps, strict=True):
                num_asked[row] += 1
                expected[row] += alone[row].take(alone[row].add(chunks_DTA, number))[0].tolist()
        assert plans.take().tolist() == [actions[step] for actions in expected]


def test_what_lerobot_commits() -> None:
    from lerobot_policy_oat.batch_plans import committed_by_lerobot

    left = torch.arange(12.0).view(2, 3, 2)
    told = committed_by_lerobot({"prev_chunk_left_over": left, "inference_delay": 2})
    assert told is not None
    assert torch.equal(told, left[:, :2])
    nothing = ({}, {"prev_chunk_left_over": left}, {"inference_delay": 2})
    for given_by_lerobot in nothing:
        assert committed_by_lerobot(given_by_lerobot) is None
    assert committed_by_lerobot({"prev_chunk_left_over": left, "inference_delay": 0}) is None
