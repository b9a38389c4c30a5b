from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos


def test_a_nan_in_the_state_is_found_too(tmp_path: Path) -> None:
    demos = make_demos()
    demos[2].state[0, 0] = np.inf
    path = datasets.write_npz_folder(tmp_path / "d", demos)
    with pytest.raises(
        DatasetError, match=r"0002.npz: 'observation.state' is not finite at episode 2 frame 0"
    ):
        oatkit.open_dataset(path)


def test_episodes_that_are_not_finite_can_be_left_out(tmp_path: Path) -> None:
    demos = make_demos()
    for episode, frame in ((0, 3), (2, 1)):
        demos[episode].actions[frame, 0] = np.nan
    path = datasets.write_npz_folder(tmp_path / "d", demos)
    found = oatkit.open_dataset(path, episodes=[1])
    assert found.episode_numbers.tolist() == [1]
    assert np.isfinite(found.action_statistics().mean).all()
    with pytest.raises(DatasetError, match=r"0002.npz: 'action' is not finite at episode 2 frame"):
        oatkit.open_dataset(path, episodes=[1, 2])


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


def test_a_dataset_without_state(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", action=np.arange(12.0).reshape(6, 2))
    dataset = oatkit.open_dataset(tmp_path / "d.npz")
    assert dataset.state_dim == 0
    assert dataset[0].state is None
    assert "observation.state" not in dataset.chunks(2)[0]
    with pytest.raises(
        oatkit.DatasetError, match="has no state; name its columns with --state-key"
    ):
        dataset.state_statistics()


def test_episodes_are_addressed_from_both_ends(tmp_path: Path) -> None:
    demos = make_demos()
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", demos))
    np.testing.assert_array_equal(dataset[-1].actions, demos[-1].actions)
    assert [len(episode) for episode in dataset] == [12, 7, 20]
    assert repr(dataset[1]) == "Episode(1, 7 frames, 'stack the cups')"


def test_rows_are_placed_in_their_episodes(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    places = [(e, f) for e, episode in enumerate(dataset) for f in range(len(episode))]
    assert [dataset.place(row) for row in range(dataset.num_frames)] == places


def test_blocks_are_the_rows_of_the_chosen_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oatkit.data.dataset.ROWS_PER_BLOCK", 5)
    demos = make_demos((12, 7, 20, 3))
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", demos))
    chosen = dataset.subset([0, 1, 3])
    blocks = list(chosen.blocks(chosen.action))
    assert max(len(block) for block in blocks) == 5
    expected = np.concatenate([demos[i].actions for i in (0, 1, 3)])
    np.testing.assert_array_equal(np.concatenate(blocks), expected)


def test_equal_episodes_are_found(tmp_path: Path) -> None:
    demos = make_demos()
    again = [demos[2], *demos, demos[0]]
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", again))
    assert dataset.duplicate_episodes() == [[0, 3], [1, 4]]


@pytest.mark.parametrize("wants", [oatkit.train_tokenizer, oatkit.train_policy, oatkit.compare])
def test_a_path_is_no_dataset(wants: Callable[..., object]) -> None:
    message = r"'out/d' is a path: open it first, oatkit.open_dataset\('out/d'\)"
    for path in ("out/d", Path("out/d")):
        with pytest.raises(ValueError, match=message):
            wants(path)
