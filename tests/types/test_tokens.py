from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.types import Schedule, Tokens


@pytest.mark.parametrize(
    ("schedule", "sizes"),
    [
        (Schedule.tokenwise(4), (1, 1, 1, 1)),
        (Schedule.pow2(8), (1, 1, 2, 4)),
        (Schedule.pow2(1), (1,)),
        (Schedule.one_shot(8), (8,)),
        (Schedule.blocks(12, 4), (4, 4, 4)),
        (Schedule((2, 5, 8)), (2, 3, 3)),
    ],
)
def test_block_sizes(schedule: Schedule, sizes: tuple[int, ...]) -> None:
    assert schedule.block_sizes == sizes
    assert schedule.calls == len(sizes)
    assert schedule.num_tokens == sum(sizes)


@given(st.integers(0, 7), st.data())
def test_calls_of_pow2_grow_with_the_logarithm(exponent: int, data: st.DataObject) -> None:
    schedule = Schedule.pow2(2**exponent)
    budget = data.draw(st.integers(1, 2**exponent))
    assert schedule.calls_for(budget) == 1 + math.ceil(math.log2(budget))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8).map(sorted), st.data())
def test_a_budget_inside_a_block_runs_the_block(sizes: list[int], data: st.DataObject) -> None:
    endpoints = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    schedule = Schedule(tuple(endpoints))
    budget = data.draw(st.integers(1, endpoints[-1]))
    calls = schedule.calls_for(budget)
    assert endpoints[calls - 1] >= budget
    assert calls == 1 or endpoints[calls - 2] < budget


@pytest.mark.parametrize("endpoints", [(), (0,), (2, 2), (3, 2), (2, 3)])
def test_blocks_never_get_smaller(endpoints: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected blocks of 1 or more that never get smaller"):
        Schedule(endpoints)


def test_wrong_numbers() -> None:
    with pytest.raises(ValueError, match="num_tokens is 12, expected a power of two"):
        Schedule.pow2(12)
    with pytest.raises(ValueError, match="blocks of 3 do not divide 8 tokens"):
        Schedule.blocks(8, 3)
    for budget in (0, 9):
        with pytest.raises(ValueError, match=f"budget {budget} is outside 1 .. 8"):
            Schedule.pow2(8).calls_for(budget)


def test_prefixes_of_tokens() -> None:
    tokens = Tokens(torch.arange(8).reshape(2, 4), torch.tensor([4, 2]))
    prefix = tokens.prefix(3)
    assert prefix.ids.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert prefix.lengths.tolist() == [3, 2]
    assert len(prefix) == 2
    with pytest.raises(ValueError, match="a prefix has -1 tokens"):
        tokens.prefix(-1)
    with pytest.raises(ValueError, match=r"ids are \(3,\) and lengths \(1,\)"):
        Tokens(torch.zeros(3), torch.zeros(1))
