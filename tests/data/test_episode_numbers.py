from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data.episode_numbers import parse_episodes


@given(st.integers(0, 40), st.integers(1, 40))
def test_a_range_is_that_of_python(first: int, count: int) -> None:
    asked = parse_episodes([f"{first}:{first + count}"])
    assert [n for n in range(100) if n in asked] == list(range(100))[first : first + count]


def test_numbers_and_ranges_without_start_or_end() -> None:
    asked = parse_episodes(["3", ":2", "90:"])
    assert [n for n in range(93) if n in asked] == [0, 1, 3, 90, 91, 92]


@pytest.mark.parametrize("word", ["x", "1-3", "-1", "3:x", "", "0:50:2"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"--episodes got .* expected numbers such as 3 or ranges"):
        parse_episodes([word])


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="'5:5', which holds no episode"):
        parse_episodes(["5:5"])
