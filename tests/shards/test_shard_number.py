from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.shards import ShardNumber


@given(st.integers(0, 50), st.integers(1, 9))
def test_every_key_is_of_exactly_one_shard(num_keys: int, count: int) -> None:
    keys = [f"unit-{number}" for number in range(num_keys)]
    parts = [ShardNumber(index, count).of(keys) for index in range(count)]
    assert sorted(key for part in parts for key in part) == sorted(keys)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_text_and_back() -> None:
    assert ShardNumber.parse("3/8") == ShardNumber(3, 8)
    assert str(ShardNumber(3, 8)) == "3/8"


@pytest.mark.parametrize("text", ["", "3", "3/", "a/b", "-1/4", "1/4/2", "1 / 4"])
def test_other_texts(text: str) -> None:
    with pytest.raises(ValueError, match=r"--shard is .*expected NUMBER/COUNT such as 0/8"):
        ShardNumber.parse(text)


@pytest.mark.parametrize("text", ["4/4", "9/4", "0/0"])
def test_numbers_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match=rf"--shard is {text}, expected 0/.*counted from 0"):
        ShardNumber.parse(text)
