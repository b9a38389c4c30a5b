"""`light-flow` as a user trains, measures and evaluates it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import cli
from oatkit.data import Dataset
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.untrained_policy import policy_config, policy_recipe
from oatkit.policies import LightFlowConfig, policy_for_dataset
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.presets import POLICY_PRESETS
from oatkit.storage.records import record_from_json
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.train import TrainConfig
from oatkit.types import Execution, PolicyMeasurement
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE
from tests.commands.running import train_policy as run_training
from tests.evaluation.plane import HORIZON, PLANE, TASKS
from tests.policies import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz")


@pytest.fixture(scope="module")
def dataset(data: Path) -> Dataset:
    return oatkit.open_dataset(data)


def test_it_is_trained_and_measured(data: Path, tmp_path: Path) -> None:
    flags = ("--policy", "light-flow", "--horizon", "8", "--steps", "25", "--flow-draws", "2")
    assert run_training(data, tmp_path / "p", *flags, "--dropout", "0.1", "--mask-padding") == 0
    log = [json.loads(line) for line in (tmp_path / "p/train.jsonl").read_text().splitlines()]
    assert log[-1]["flow_loss"] < log[0]["flow_loss"]
    assert log[-1]["val_flow_loss"] > 0
    assert "val_accuracy" not in log[-1]
    policy = oatkit.load_policy(tmp_path / "p")
    assert isinstance(policy.model, LightFlowModel)
    sizes = replace(POLICY_PRESETS["tiny"].net, dropout=0.1)
    assert policy.net.config == LightFlowConfig(sizes, flow_draws=2, mask_padding=True)
    assert (policy.tokenizer.kind, policy.tokenizer.horizon, policy.auto) == ("bin", 8, None)
    assert policy.execution is not None
    assert len(policy.execution.bin_steps) == 1, "a flow has no entropies to tell chunks apart by"
    record = tmp_path / "m.json"
    where = ("--data", str(data), "--out", str(record))
    assert cli.main(["policy", "measure", str(tmp_path / "p"), *where]) == 0
    (rows,) = json.loads(record.read_text())
    found = record_from_json(PolicyMeasurement, rows)
    assert found.loss == pytest.approx(log[-1]["val_flow_loss"], rel=1e-3)
    assert [(b.budget, b.calls, b.tokens) for b in found.budgets] == [
        (steps, steps, 0) for steps in (1, 2, 5, 10)
    ]
    assert found.slots == ()


def test_a_stopped_run_continues_bit_for_bit(dataset: Dataset, tmp_path: Path) -> None:
    recipe = TrainConfig(steps=4, batch_size=8, learning_rate=1e-3, checkpoint_every=2)
    config = replace(policy_config("light-flow", "tiny"), flow_draws=3)
    config = replace(config, sizes=replace(config.sizes, dropout=0.2))
    tokenizer = tiny.make_tokenizer("oat", dataset)
    for out, steps in (("once", 4), ("twice", 2), ("twice", 4)):
        recipe = replace(recipe, steps=steps)
        train_policy(dataset, tokenizer, config, tmp_path / out, train=recipe, cameras=("front",))
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("once", "twice")]
    assert weights[0] == weights[1]


def test_a_tokenizer_lends_its_chunks_and_its_normalizer(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat-pow2", dataset)
    how = {"preset": "tiny", "train": {"steps": 1, "batch_size": 2}}
    policy = train_policy(dataset, tokenizer, "light-flow", **how)
    assert policy.tokenizer is tokenizer
    assert policy.net.chunk_shape == (tiny.HORIZON, tiny.ACTION_DIM)
    further = train_policy(dataset, init=policy, **how)
    assert further.kind == "light-flow"


@pytest.mark.parametrize("preset", POLICY_PRESETS)
def test_presets_are_those_of_the_light_policy(preset: str) -> None:
    config = policy_config("light-flow", preset)
    sizes = replace(POLICY_PRESETS[preset].net, code_smoothing=0.0, offset_layers=0)
    assert config == LightFlowConfig(sizes)
    light = POLICY_PRESETS[preset]
    recipe = replace(light.train, steps=light.flow_steps or light.train.steps)
    assert policy_recipe("light-flow", preset) == recipe


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--endpoints", "1", "2"), "light-flow has no schedule: leave --endpoints out"),
        (("--flow-draws", "0"), "--flow-draws is 0, expected at least 1"),
        (("--crop", "0.9"), "light-flow has its own crop"),
        (("--backbone", "x"), "the light-flow policy has no backbone"),
        (("--expert-start", "5"), "no flow expert to train apart"),
    ],
)
def test_flags_that_it_does_not_have(
    flags: tuple[str, ...],
    problem: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = ("--policy", "light-flow", "--horizon", "8")
    assert run_training(data, tmp_path / "p", *own, *flags) != 0
    assert problem in capsys.readouterr().err


def test_episodes_are_run(tmp_path: Path) -> None:
    rng: Callable[..., np.ndarray] = np.random.default_rng(0).normal
    for index, text in enumerate(TASKS.values()):
        arrays = {"action": rng(size=(20, 2)), "observation.state": rng(size=(20, 4))}
        np.savez(tmp_path / f"{index}.npz", **arrays, task=text)
    dataset = oatkit.open_dataset(tmp_path)
    config = make_config("bin", horizon=HORIZON, action_dim=2)
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    policy = policy_for_dataset(LightFlowConfig(tiny.CONFIG), tokenizer, dataset)
    rollout = Rollout(Execution(HORIZON), state_keys=(STATE, ENVIRONMENT_STATE))
    plans = [EpisodePlan(task, steps, 0) for task in ("near", "far") for steps in (1, 5)]
    found = list(EpisodeRunner(policy, PLANE, rollout).run(plans))
    assert all(0 < e.steps <= PLANE.max_steps and e.error is None for e in found)
    assert sorted(e.calls for e in found) == [1, 1, 5, 5]
    assert {e.tokens for e in found} == {0}
