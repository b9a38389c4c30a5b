from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data.splits import split_episodes

digest_lists = st.lists(st.binary(min_size=1, max_size=3), min_size=2, max_size=40).filter(
    lambda digests: len(set(digests)) > 1
)
fractions = st.floats(0.01, 0.99)


@given(digests=digest_lists, fraction=fractions, seed=st.integers(0, 5), data=st.data())
def test_a_split_follows_content_not_order(
    digests: list[bytes], fraction: float, seed: int, data: st.DataObject
) -> None:
    is_held_out = split_episodes(digests, fraction=fraction, seed=seed)
    side = dict(zip(digests, is_held_out.tolist(), strict=True))
    order = data.draw(st.permutations(range(len(digests))))
    shuffled = [digests[i] for i in order]
    again = split_episodes(shuffled, fraction=fraction, seed=seed)
    assert [side[d] for d in shuffled] == again.tolist()
    assert 0 < is_held_out.sum() < len(digests)


@given(num_episodes=st.integers(2, 200), fraction=fractions, seed=st.integers(0, 2**32))
def test_the_fraction_is_kept(num_episodes: int, fraction: float, seed: int) -> None:
    digests = [str(i).encode() for i in range(num_episodes)]
    wanted = min(max(1, round(fraction * num_episodes)), num_episodes - 1)
    assert split_episodes(digests, fraction=fraction, seed=seed).sum() == wanted


@given(digests=digest_lists, fraction=fractions)
def test_equal_episodes_share_a_side(digests: list[bytes], fraction: float) -> None:
    is_held_out = split_episodes(digests, fraction=fraction, seed=0)
    for digest in set(digests):
        sides = {bool(s) for d, s in zip(digests, is_held_out, strict=True) if d == digest}
        assert len(sides) == 1


def test_seeds_differ() -> None:
    digests = [bytes([i]) for i in range(50)]
    splits = {split_episodes(digests, fraction=0.2, seed=s).tobytes() for s in range(5)}
    assert len(splits) == 5


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, 2.0])
def test_a_wrong_fraction(fraction: float) -> None:
    with pytest.raises(ValueError, match=f"is {fraction}, expected between 0 and 1"):
        split_episodes([b"a", b"b"], fraction=fraction, seed=0)


def test_too_few_episodes() -> None:
    with pytest.raises(ValueError, match="needs two different episodes, here are 2, all alike"):
        split_episodes([b"a", b"a"], fraction=0.5, seed=0)
