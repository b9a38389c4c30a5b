"""Datasets of different robots, sampled by weight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oatkit
from oatkit.data.mixture import NUM_PLACES, Member, Mixture, even_places, open_mixture, read_mixture
from oatkit.errors import DatasetError


def arrays(dim: int, length: int = 12, num_episodes: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(dim)
    return {"action": rng.normal(size=(num_episodes, length, dim))}


@pytest.fixture
def mixture() -> Mixture:
    return open_mixture({"one": arrays(3), "two": arrays(5)}, weights={"one": 3, "two": 1})


@given(st.integers(0, 2**31), st.lists(st.floats(0.01, 100), min_size=1, max_size=4))
def test_places_that_are_drawn_evenly_are_a_mixture_by_weight(
    seed: int, weights: list[float]
) -> None:
    one = oatkit.open_dataset(arrays(2))
    mixture = Mixture(tuple(Member(str(i), one, weight) for i, weight in enumerate(weights)))
    sizes = [10 * (i + 1) for i in range(len(weights))]
    places = np.random.default_rng(seed).integers(NUM_PLACES, size=4000)
    member, chunk = mixture.locate(places, sizes)
    found = np.bincount(member, minlength=len(weights)) / len(places)
    np.testing.assert_allclose(found, mixture.shares, atol=0.05)
    assert (chunk >= 0).all()
    assert (chunk < np.array(sizes)[member]).all()


def test_even_places_reach_every_chunk_where_weights_are_the_sizes(mixture: Mixture) -> None:
    sizes = [30, 10]
    member, chunk = mixture.locate(even_places(np.arange(40), 40), sizes)
    assert member.tolist() == [0] * 30 + [1] * 10
    assert chunk.tolist() == [*range(30), *range(10)]
    ends = mixture.locate(np.array([0, NUM_PLACES - 1]), sizes)
    assert [part.tolist() for part in ends] == [[0, 1], [0, 9]]


def test_a_mixture_knows_its_datasets(mixture: Mixture) -> None:
    assert mixture.names == ("one", "two")
    assert mixture.shares.tolist() == [0.75, 0.25]
    assert mixture.represented_dim == 5
    assert mixture["two"].action_dim == 5
    train, held_out = mixture.split(0.25)
    assert (len(train["one"]), len(held_out["one"])) == (3, 1)


def test_what_is_typed(tmp_path: Path) -> None:
    for name, dim in (("a", 2), ("b", 4)):
        np.savez(tmp_path / f"{name}.npz", action=arrays(dim)["action"][0])
    typed = f"{tmp_path}/a.npz=0.7,{tmp_path}/b.npz=0.3"
    mixture = read_mixture(typed)
    assert mixture is not None
    assert (mixture.names, mixture.shares.tolist()) == (("a", "b"), [0.7, 0.3])
    assert read_mixture(f"{tmp_path}/a.npz") is None
    assert read_mixture("org/name") is None
    toml = tmp_path / "mixture.toml"
    toml.write_text('[left]\npath = "a.npz"\nweight = 2\nfps = 5\n[right]\npath = "b.npz"\n')
    read = read_mixture(str(toml), fps=20)
    assert read is not None
    assert [member.dataset.fps for member in read.members] == [5, 20]
    assert read.shares.tolist() == [2 / 3, 1 / 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a]\nweight = 1\n", "'a' has no path"),
        (
            '[a]\npath = "a.npz"\nwight = 1\n',
            "unknown key of a 'wight'; known, closest first: weight",
        ),
        ("[a\n", "is no readable mixture"),
    ],
)
def test_a_wrong_file_is_one_clear_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mixture.toml").write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_mixture(str(tmp_path / "mixture.toml"))
    with pytest.raises(DatasetError, match="is no readable mixture"):
        read_mixture(str(tmp_path / "missing.toml"))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0, 0], "the weights of one, two sum to 0"),
        ([-1, 2], "the weight of 'one' is -1.0, expected 0 or more"),
        ([float("nan"), 1], "the weight of 'one' is nan"),
        ([1], "there are 1 weights for 2 datasets"),
        ({"three": 1}, "unknown embodiment 'three'"),
    ],
)
def test_wrong_weights_are_errors(weights: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_mixture({"one": arrays(3), "two": arrays(5)}, weights)  # type: ignore[arg-type]


def test_names_are_needed_and_unique(mixture: Mixture) -> None:
    with pytest.raises(ValueError, match="unknown embodiment 'three'; known, closest first"):
        mixture["three"]
    with pytest.raises(ValueError, match="arrays have no name"):
        open_mixture([arrays(2)])
    twice = (Member("one", mixture["one"]), Member("one", mixture["two"]))
    with pytest.raises(ValueError, match="two datasets of the mixture are named 'one'"):
        Mixture(twice)
    with pytest.raises(ValueError, match="at least one dataset"):
        Mixture(())


def test_a_mixture_where_one_dataset_is_wanted_is_told_apart() -> None:
    with pytest.raises(DatasetError, match="mixtures are for `train` commands"):
        oatkit.open_dataset("a=1,b=2")
