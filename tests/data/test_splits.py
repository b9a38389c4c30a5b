from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oatkit
from oatkit.data.splits import split_episodes
from tests.data import datasets
from tests.data.datasets import make_demos

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
    with pytest.raises(ValueError, match=f"fraction is {fraction}, expected between 0 and 1"):
        split_episodes([b"a", b"b"], fraction=fraction, seed=0)


def test_too_few_episodes() -> None:
    with pytest.raises(ValueError, match="needs two different episodes, here are 2, all alike"):
        split_episodes([b"a", b"a"], fraction=0.5, seed=0)


def test_datasets_are_split_by_episode_and_stay_split_when_reordered(tmp_path: Path) -> None:
    demos = make_demos(tuple(range(5, 25)))
    train, held_out = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "a.npz", demos)).split(
        0.25, seed=1
    )
    assert (len(train), len(held_out)) == (15, 5)
    assert not set(train.episode_ids) & set(held_out.episode_ids)
    assert train.num_frames + held_out.num_frames == sum(range(5, 25))
    assert train.fingerprint != held_out.fingerprint

    _, again = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "b.npz", demos[::-1])).split(
        0.25, seed=1
    )
    assert sorted(again.episode_lengths) == sorted(held_out.episode_lengths)
    total = held_out.action_statistics()
    by_hand = np.concatenate([demos[i].actions for i in held_out.episode_ids])
    np.testing.assert_allclose(total.mean, by_hand.mean(axis=0, dtype=np.float64))
    assert total.count == len(by_hand)


def test_subsets_by_mask_and_none(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    assert dataset.subset(dataset.episode_lengths > 10).episode_ids.tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"no episodes of .* were selected"):
        dataset.subset([])
