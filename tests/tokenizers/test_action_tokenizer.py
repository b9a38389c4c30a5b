"""Artifacts, units and the facts of the data, which are the same for every kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset, Normalizer, open_dataset
from oatkit.data.statistics import compute_statistics
from oatkit.errors import ArtifactError
from oatkit.tokenizers import ActionTokenizer, load_tokenizer, make_config
from oatkit.types import Tokens
from tests.tokenizers.small_tokenizers import ACTION_DIM, make, walks


def test_broken_artifacts(tmp_path: Path) -> None:
    path = make("bin").save_pretrained(tmp_path / "t")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"version": 99}))
    with pytest.raises(ArtifactError, match="holds oatkit/tokenizer in version 99, this"):
        load_tokenizer(path)
    (path / "config.json").write_text("{")
    with pytest.raises(ArtifactError, match="is no readable tokenizer artifact"):
        load_tokenizer(path)
    path = make("klt").save_pretrained(tmp_path / "k")
    config = json.loads((path / "config.json").read_text())
    config["codec"]["num_tokens"] = 3
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match=r"model.safetensors is of another config"):
        load_tokenizer(path)
    with pytest.raises(ArtifactError, match="nowhere/at-all is no folder here and could not be"):
        load_tokenizer("nowhere/at-all")


def test_tokens_of_a_prefix_are_the_first_tokens() -> None:
    tokens = make("oat").encode(walks()[:2])
    assert isinstance(tokens, Tokens)
    torch.testing.assert_close(tokens.prefix(2).ids, tokens.ids[:, :2])


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", action=rng.normal(size=(400, 2)), fps=20.0)
    return open_dataset(tmp_path / "a.npz", cache_dir=tmp_path)


def test_the_normalizer_and_the_facts_are_those_of_the_dataset(dataset: Dataset) -> None:
    tokenizer = ActionTokenizer.for_dataset(make_config("bin", horizon=8, action_dim=2), dataset)
    assert tokenizer.data.fingerprint == dataset.fingerprint
    assert tokenizer.normalizer.mode == "min_max"
    assert tokenizer.check(dataset) == []
    with pytest.raises(ValueError, match=r"is for 3 action dimensions, .*a\.npz has 2"):
        ActionTokenizer.for_dataset(make_config("bin", horizon=8, action_dim=3), dataset)


def test_a_normalizer_of_other_data_is_refused() -> None:
    statistics = compute_statistics(lambda: [np.eye(4)], dim=4)
    with pytest.raises(ValueError, match="the normalizer has 4 dimensions and the codec 3"):
        ActionTokenizer(make("bin").codec, Normalizer.fit(statistics), make("bin").data)


def test_sequences_that_do_not_decode_are_none() -> None:
    tokenizer = make("fast")
    tokens = tokenizer.encode(walks()[:3])
    cut = Tokens(tokens.ids, torch.tensor([int(tokens.lengths[0]), 1, int(tokens.lengths[2])]))
    found = tokenizer.try_decode(cut)
    assert [chunk is None for chunk in found] == [False, True, False]
    total = make("bin").try_decode(make("bin").encode(walks()[:2]))
    assert [tuple(chunk.shape) for chunk in total if chunk is not None] == [(8, ACTION_DIM)] * 2


def test_numpy_gives_numpy_on_the_way_back_too() -> None:
    tokenizer, actions = make("oat"), torch.from_numpy(walks()[:3])
    tokens = tokenizer.encode(actions.numpy())
    assert isinstance(tokenizer.decode(tokens), np.ndarray)
    assert isinstance(tokenizer.decode(tokens.prefix(2), budget=1), np.ndarray)
    assert isinstance(tokenizer.decode_rows(tokens)[0], torch.Tensor)
    assert isinstance(tokenizer.decode(tokenizer.encode(actions)), torch.Tensor)


def test_one_that_was_never_trained_says_so(dataset: Dataset, tmp_path: Path) -> None:
    sizes = {"horizon": 8, "action_dim": 2, "num_tokens": 4, "levels": (4, 4)}
    small = {"width": 16, "num_layers": 1, "num_heads": 2}
    made = ActionTokenizer.for_dataset(make_config("oat", **sizes, **small), dataset)
    opened = load_tokenizer(made.save_pretrained(tmp_path / "made"))
    for tokenizer in (made, opened):
        for use in (
            lambda t: t.encode(np.zeros((1, 8, 2))),
            lambda t: t.decode([[0, 0, 0, 0]]),
        ):
            with pytest.warns(UserWarning, match="this oat tokenizer is not trained: its weights"):
                use(tokenizer)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["oat-pow2", "bin", "klt"])
def test_one_that_was_trained_or_needs_no_training_is_silent(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    dataset = open_dataset([rng.normal(size=(60, 2)) for _ in range(3)], cache_dir=tmp_path)
    made = oatkit.train_tokenizer(
        dataset, kind, tmp_path / kind, preset="tiny", horizon=8, train={"steps": 1}
    )
    for tokenizer in (made, load_tokenizer(tmp_path / kind)):
        tokenizer.decode(tokenizer.encode(np.zeros((1, 8, 2))))
