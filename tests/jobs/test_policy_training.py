"""Training a policy from Python: objects in, an object out, and nothing printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit import cli
from oatkit.data import Dataset
from oatkit.jobs import policy_training
from oatkit.jobs.policy_training import PolicyJob, prepare_policy, train_policy
from oatkit.jobs.untrained_policy import policy_config
from oatkit.policies import LightConfig, Policy, VlmConfig
from oatkit.tokenizers import ActionTokenizer
from oatkit.train import train
from oatkit.types import Sampling
from tests.policies import tiny

SHORT = {"steps": 2, "batch_size": 4}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def tokenizer(dataset: Dataset) -> ActionTokenizer:
    return tiny.make_tokenizer("oat", dataset)


def test_it_trains_and_predicts_and_prints_nothing(
    dataset: Dataset, tokenizer: ActionTokenizer, capfd: pytest.CaptureFixture[str]
) -> None:
    policy = oatkit.train_policy(dataset, tokenizer, preset="tiny", train=SHORT)
    assert capfd.readouterr() == ("", "")
    assert policy.kind == "light"
    assert policy.extras["train"]["steps"] == 2
    frame = dataset.chunks(tiny.HORIZON, history=2).batch(np.arange(1))
    assert policy.predict_action_chunk(frame).chunk.shape == (1, tiny.HORIZON, tiny.ACTION_DIM)


def test_a_tokenizer_its_folder_and_the_command_are_the_same_training(
    dataset: Dataset, tokenizer: ActionTokenizer, tmp_path: Path
) -> None:
    """Bit for bit, though loading a tokenizer takes random numbers."""
    stored = tokenizer.save_pretrained(tmp_path / "t")
    how = {"preset": "tiny", "cameras": ("front",), "train": SHORT}
    train_policy(dataset, tokenizer, out=tmp_path / "object", **how)
    train_policy(dataset, str(stored), policy_config("light", "tiny"), tmp_path / "folder", **how)
    where = ["--data", str(dataset.path), "--out", str(tmp_path / "command")]
    flags = ["--preset", "tiny", "--cameras", "front", "--steps", "2", "--batch-size", "4"]
    train = ["policy", "train", "--tokenizer", str(stored), *where, *flags]
    assert cli.main(train) == 0
    first, *others = (
        (tmp_path / how / "model.safetensors").read_bytes()
        for how in ("object", "folder", "command")
    )
    assert all(other == first for other in others)


def test_the_artifact_says_which_precision_computed(
    dataset: Dataset, tokenizer: ActionTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"preset": "tiny", "train": {"steps": 1, "batch_size": 4}}
    assert train_policy(dataset, tokenizer, **short).extras["train"]["precision"] == "float32"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert train_policy(dataset, tokenizer, **short).extras["train"]["precision"] == "bfloat16"


def test_it_starts_from_a_policy_which_stays_as_it_was(
    dataset: Dataset, tokenizer: ActionTokenizer, tmp_path: Path
) -> None:
    first = train_policy(dataset, tokenizer, out=tmp_path / "a", preset="tiny", train=SHORT)
    weights = {name: value.clone() for name, value in first.net.state_dict().items()}
    one = {"preset": "tiny", "train": {"steps": 1, "batch_size": 4}}
    found = [train_policy(dataset, init=init, **one) for init in (first, tmp_path / "a")]
    assert all(torch.equal(first.net.state_dict()[name], weights[name]) for name in weights)
    states = [policy.net.state_dict() for policy in found]
    assert all(torch.equal(states[0][name], states[1][name]) for name in weights)
    assert any(not torch.equal(states[0][name], weights[name]) for name in weights)


def test_what_a_policy_did_not_see_it_does_not_see_when_it_goes_on(
    dataset: Dataset, tokenizer: ActionTokenizer
) -> None:
    one = {"preset": "tiny", "train": {"steps": 1, "batch_size": 4}}
    first = train_policy(dataset, tokenizer, held_out=0.5, split_seed=3, **one)
    further = train_policy(dataset, init=first, **one)
    assert further.extras["split"] == first.extras["split"] == {"held_out": 0.5, "seed": 3}


def test_planning_leaves_the_policy_untrained(dataset: Dataset, tokenizer: ActionTokenizer) -> None:
    training = prepare_policy(dataset, tokenizer, preset="tiny")
    before = {name: value.clone() for name, value in training.policy.net.state_dict().items()}
    assert training.affordable_steps(0.001) >= 1
    after = training.policy.net.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name a tokenizer, or a policy to start from"),
        ({"config": "light", "backbone": "x", "with": True}, "light policy has no backbone"),
        ({"config": "vlm-tc", "with": True}, "vlm-tc needs a backbone: name its checkpoint"),
        ({"init": "x", "backbone": "y"}, "the policy to start from has its own backbone"),
        ({"init": "x", "history": 3}, "the policy to start from has its own history"),
        ({"preset": "tinny", "with": True}, "unknown preset 'tinny'; known, closest first: tiny"),
    ],
)
def test_wrong_arguments(
    arguments: dict[str, object], message: str, dataset: Dataset, tokenizer: ActionTokenizer
) -> None:
    wanted = dict(arguments)
    given = tokenizer if wanted.pop("with", False) else None
    with pytest.raises(ValueError, match=message):
        train_policy(dataset, given, **wanted)  # type: ignore[arg-type]


def test_drifted_actions_are_refused_unless_allowed(
    dataset: Dataset, tokenizer: ActionTokenizer, tmp_path: Path
) -> None:
    for path in sorted(Path(dataset.path).iterdir()):
        with np.load(path) as file:
            np.savez(tmp_path / path.name, **{**file, "action": 3 * file["action"]})
    other = oatkit.open_dataset(tmp_path, cache_dir=dataset.cache_dir)
    with pytest.raises(ValueError, match=r"or go on with --allow-drift \(allow_drift=True\)"):
        train_policy(other, tokenizer, preset="tiny", train=SHORT)
    train_policy(other, tokenizer, preset="tiny", train=SHORT, allow_drift=True)


def test_a_run_that_ends_while_it_calibrates_leaves_a_policy(
    dataset: Dataset, tokenizer: ActionTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calibrating 3 billion weights may take longer than the rest of a job's time. What is saved
    has no thresholds of an earlier policy, and the same call again only calibrates."""
    first = train_policy(dataset, tokenizer, out=tmp_path / "a", preset="tiny", train=SHORT)
    assert first.auto is not None
    how = {"init": tmp_path / "a", "out": tmp_path / "b", "preset": "tiny", "train": SHORT}

    def killed(*_: object) -> None:
        raise SystemExit("out of time")

    with monkeypatch.context() as patch:
        patch.setattr(Policy, "calibrate", killed)
        with pytest.raises(SystemExit, match="out of time"):
            train_policy(dataset, **how)
    left = oatkit.load_policy(tmp_path / "b")
    assert left.auto is None
    assert left.extras["train"]["steps"] == 2
    frame = dataset.chunks(tiny.HORIZON, history=2).batch(np.arange(1))
    chunk = left.predict_action_chunk(frame, sampling=Sampling(seed=0)).chunk
    weights = (tmp_path / "b/model.safetensors").read_bytes()
    policy = train_policy(dataset, **how)
    assert policy.auto == oatkit.load_policy(tmp_path / "b").auto
    assert policy.auto is not None
    assert (tmp_path / "b/model.safetensors").read_bytes() == weights
    again = policy.predict_action_chunk(frame, sampling=Sampling(seed=0)).chunk
    np.testing.assert_array_equal(again, chunk)
    policy.save_pretrained(tmp_path / "c")
    configs = [(tmp_path / name / "config.json").read_text() for name in "bc"]
    assert configs[0] == configs[1]


def test_after_sharded_training_the_policy_is_saved_and_then_calibrated_on_the_device(
    dataset: Dataset, tokenizer: ActionTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The meta device stands for the accelerator that trained. A policy that is rebuilt from the
    last checkpoint is on the CPU, where calibrating 3 billion weights takes hours."""
    training = prepare_policy(dataset, tokenizer, preset="tiny", train=SHORT)
    sharded, events = training.policy, []

    def train_on_the_device(*arguments: Any, **settings: Any) -> bool:
        is_main = train(*arguments, **settings)
        spy()
        return is_main

    def device(self: Policy) -> torch.device:
        return torch.device("meta" if self is sharded else "cpu")

    def note(what: str) -> Callable[..., None]:
        return lambda self, *given: events.append((what, self is sharded, *map(str, given[:1])))

    def spy() -> None:
        monkeypatch.setattr(policy_training, "is_sharding_asked", lambda: True)
        monkeypatch.setattr(Policy, "device", property(device))
        for name in ("save_pretrained", "to", "calibrate"):
            monkeypatch.setattr(Policy, name, note(name))

    monkeypatch.setattr(policy_training, "change_config", lambda *_: None)
    monkeypatch.setattr(policy_training, "train", train_on_the_device)
    policy = training.run(tmp_path)
    assert [(what, given) for what, _, given in events if what != "calibrate"] == [
        ("save_pretrained", str(tmp_path)),
        ("to", "meta"),
        ("to", "cpu"),
    ]
    assert [what for what, *_ in events][2] == "calibrate"
    assert not any(is_sharded for _, is_sharded, _ in events)
    wanted = sharded.net.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in policy.net.state_dict().items())


def test_a_job_gives_tokens_actions_and_observations(
    dataset: Dataset, tokenizer: ActionTokenizer
) -> None:
    training = prepare_policy(dataset, tokenizer, preset="tiny")
    job = PolicyJob(training.policy, *dataset.split(0.1, seed=0))
    indices = np.array([3, 0, 19])
    ids_BK, lengths_B, actions_BTA, is_pad_BT, *observed = job.batch(indices)
    wanted = dataset.split(0.1, seed=0)[0].chunks(tiny.HORIZON).actions(indices)[0]
    assert is_pad_BT.sum(dim=1).tolist() == [0, 0, tiny.HORIZON - 1]  # the last frame of an episode
    assert torch.equal(actions_BTA, torch.from_numpy(wanted))
    assert torch.equal(ids_BK, tokenizer.encode(wanted).ids)
    assert lengths_B.tolist() == [tokenizer.max_tokens] * 3
    assert all(len(tensor) == 3 for tensor in observed)


def test_presets_have_configs_for_every_policy() -> None:
    assert isinstance(policy_config("light", "paper"), LightConfig)
    config = policy_config("vlm-ar", "tiny")
    assert isinstance(config, VlmConfig)
    assert replace(config, objective="vlm-tc") == policy_config("vlm-tc", "tiny")
