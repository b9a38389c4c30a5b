"""Training a tokenizer from Python: objects in, an object out, and nothing printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.jobs import step_planning
from oatkit.jobs.tokenizer_training import (
    prepare_tokenizer,
    rate_distortion,
    tokenizer_config,
    train_tokenizer,
)
from oatkit.presets import tokenizer_preset
from oatkit.tokenizers import KINDS
from oatkit.tokenizers.oat import OatConfig
from oatkit.train import TrainConfig
from tests.jobs.walks import write_walks

SHORT = {"steps": 3, "batch_size": 8}
SMALL = {"horizon": 8, "num_tokens": 4, "levels": (5, 4)}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(write_walks(folder / "walks.npz"), cache_dir=folder / "cache")


def test_it_trains_saves_loads_encodes_and_decodes(
    dataset: Dataset, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokenizer = oatkit.train_tokenizer(dataset, "oat", preset="tiny", horizon=8)
    assert capfd.readouterr() == ("", "")
    assert (tokenizer.kind, tokenizer.horizon, tokenizer.action_dim) == ("oat", 8, 3)
    assert tokenizer.extras["train"]["steps"] == tokenizer_preset("tiny").train.steps
    tokenizer.save_pretrained(tmp_path / "t")
    loaded = oatkit.load_tokenizer(tmp_path / "t")
    actions = dataset.chunks(8).actions(np.arange(5))[0]
    tokens = loaded.encode(actions)
    assert torch.equal(tokens.ids, tokenizer.encode(actions).ids)
    chunks = loaded.decode(tokens, budget=loaded.max_tokens)
    assert chunks.shape == actions.shape


def test_a_bar_is_shown_if_asked_for(dataset: Dataset, capfd: pytest.CaptureFixture[str]) -> None:
    train_tokenizer(dataset, "oat", preset="tiny", train=SHORT, show_progress=True, **SMALL)
    shown = capfd.readouterr()
    assert "training oat" in shown.out
    assert "3/3 steps" in shown.err


def test_a_config_a_kind_and_the_command_are_the_same_training(
    dataset: Dataset, tmp_path: Path
) -> None:
    """Bit for bit: the same weights, the same log, the same artifact."""
    config = tokenizer_config("oat", dataset.action_dim, "tiny", **SMALL)
    recipe = replace(tokenizer_preset("tiny").train, steps=3, batch_size=8, warmup_steps=0)
    train_tokenizer(dataset, config, tmp_path / "objects", train=recipe)
    train_tokenizer(dataset, "oat", tmp_path / "names", preset="tiny", train=SHORT, **SMALL)
    where = ["--data", str(dataset.path), "--out", str(tmp_path / "command"), "--preset", "tiny"]
    sizes = ["--horizon", "8", "--num-tokens", "4", "--levels", "5", "4"]
    steps = ["--steps", "3", "--batch-size", "8"]
    command = ["tokenizer", "train", "--kind", "oat", *where, *sizes, *steps]
    from oatkit import cli

    assert cli.main(command) == 0
    for name in ("config.json", "model.safetensors"):
        first, *others = (
            (tmp_path / how / name).read_bytes() for how in ("objects", "names", "command")
        )
        assert all(other == first for other in others), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_or_is_fitted(kind: str, dataset: Dataset) -> None:
    tokenizer = train_tokenizer(dataset, kind, preset="tiny", train={"steps": 2}, horizon=8)
    assert ("train" in tokenizer.extras) == KINDS[kind].is_learned
    rows = tokenizer.extras["rate_distortion"]
    assert len(rows) == len(tokenizer.budgets)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.is_learned])
def test_a_batch_in_parts_trains_like_the_whole_batch(kind: str, dataset: Dataset) -> None:
    whole, parted = (
        train_tokenizer(
            dataset, kind, preset="tiny", train={**SHORT, "accumulate": parts}, horizon=8
        ).codec.state_dict()
        for parts in (1, 4)
    )
    for name in whole:
        torch.testing.assert_close(parted[name], whole[name], rtol=1e-4, atol=1e-4)


def test_a_stopped_run_continues_where_out_says(dataset: Dataset, tmp_path: Path) -> None:
    recipe = TrainConfig(steps=4, batch_size=8, learning_rate=1e-3, checkpoint_every=2)
    config = tokenizer_config("quest", 3, "tiny", horizon=8)
    train_tokenizer(dataset, config, tmp_path / "once", train=recipe)
    train_tokenizer(dataset, config, tmp_path / "twice", train=replace(recipe, steps=2))
    train_tokenizer(dataset, config, tmp_path / "twice", train=recipe)
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("once", "twice")]
    assert weights[0] == weights[1]


def test_it_starts_from_a_tokenizer_or_its_folder(dataset: Dataset, tmp_path: Path) -> None:
    first = train_tokenizer(dataset, "oat", tmp_path / "a", preset="tiny", train=SHORT, **SMALL)
    weights = {name: value.clone() for name, value in first.codec.state_dict().items()}
    given = oatkit.load_tokenizer(tmp_path / "a")
    found = [
        train_tokenizer(dataset, init=init, preset="tiny", train={"steps": 1, "seed": 1})
        for init in (given, tmp_path / "a")
    ]
    assert all(torch.equal(given.codec.state_dict()[name], weights[name]) for name in weights)
    states = [tokenizer.codec.state_dict() for tokenizer in found]
    assert all(torch.equal(states[0][name], states[1][name]) for name in weights)
    assert any(not torch.equal(states[0][name], weights[name]) for name in weights)
    assert found[0].normalizer.to_json() == first.normalizer.to_json()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": "oats"}, "unknown tokenizer kind 'oats'; known, closest first: oat"),
        ({"config": "bin", "num_tokens": 4}, "unknown setting of bin 'num_tokens'"),
        ({"config": OatConfig(8, 3), "levels": (5, 4)}, "levels can only change a preset"),
        ({"config": OatConfig(8, 2)}, "the tokenizer is for 2 action dimensions, .* has 3"),
        ({"config": "oat", "init": "x"}, r"has its own config: give only --init \(init\)"),
        ({"preset": "tinny"}, "unknown preset 'tinny'; known, closest first: tiny"),
        ({"train": {"step": 3}}, "unknown training setting 'step'; .*: steps"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str, dataset: Dataset) -> None:
    with pytest.raises(ValueError, match=message):
        train_tokenizer(dataset, **arguments)  # type: ignore[arg-type]


def test_overlap_is_for_actions_whose_steps_mean_the_same_anywhere(dataset: Dataset) -> None:
    represented = oatkit.open_dataset(dataset.path, actions="delta")
    with pytest.raises(ValueError, match=r"overlap_weight is for actions .* not for delta:0-"):
        train_tokenizer(represented, "oat", preset="tiny", overlap_weight=0.1)


def test_planning_leaves_the_tokenizer_untrained(dataset: Dataset) -> None:
    training = prepare_tokenizer(dataset, "oat", preset="tiny", **SMALL)
    before = {name: value.clone() for name, value in training.tokenizer.codec.state_dict().items()}
    assert training.affordable_steps(0.001) >= 1
    after = training.tokenizer.codec.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_rate_distortion_is_the_mean_squared_error_of_prefixes(dataset: Dataset) -> None:
    tokenizer = train_tokenizer(dataset, "klt", **SMALL)
    actions = torch.from_numpy(dataset.chunks(8).actions(np.arange(40))[0])
    rows = rate_distortion(tokenizer, actions)
    assert [row["budget"] for row in rows] == list(tokenizer.budgets)
    for row in rows:
        decoded = tokenizer.decode(tokenizer.encode(actions), budget=int(row["budget"]))
        assert row["mse"] == pytest.approx(float((decoded - actions).square().mean()))
        assert row["bits"] == pytest.approx(row["budget"] * np.log2(20))


def test_minutes_bound_the_chunks_of_a_kind_that_is_fitted(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_planning, "TRIAL_CHUNKS", 8)
    how = {"preset": "tiny", "horizon": 8, "num_tokens": 2, "levels": (4, 4)}
    short = train_tokenizer(dataset, "klt", minutes=1e-6, **how)
    assert short.extras["fit"] == {"num_chunks": 8}
    whole = train_tokenizer(dataset, "klt", minutes=10.0, **how)
    train_set = dataset.split(0.1, seed=0)[0]
    assert whole.extras["fit"] == {"num_chunks": train_set.num_frames}
    assert train_tokenizer(dataset, "bin", minutes=1e-6, horizon=8).extras.keys() >= {"split"}


@pytest.mark.parametrize("kind", ["oat", "klt", "bin"])
def test_how_long_a_kind_takes_is_estimated_without_changing_it(
    kind: str, dataset: Dataset
) -> None:
    training = prepare_tokenizer(dataset, kind, {"steps": 1000}, preset="tiny", horizon=8)
    before = {k: v.clone() for k, v in training.tokenizer.codec.state_dict().items()}
    seconds = training.estimate_seconds("cpu")
    assert seconds == 0 if kind == "bin" else seconds > 0
    after = training.tokenizer.codec.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
