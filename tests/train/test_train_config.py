"""Settings of training: learning rates, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oatkit.presets import tokenizer_preset
from oatkit.train import TrainConfig, asked_settings, resolve_config
from oatkit.train.train_config import ADDED, decided_until
from tests.train.regression import CONFIG


def test_learning_rates() -> None:
    config = TrainConfig(steps=110, learning_rate=1.0, schedule="cosine", warmup_steps=10)
    rates = [config.learning_rate_at(step) for step in range(110)]
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)
    assert TrainConfig(learning_rate=0.5).learning_rate_at(10**6) == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps is 0, expected at least 1"),
        ({"keep_checkpoints": -1}, "keep_checkpoints is -1, expected at least 1"),
        ({"evaluate_every": 0}, "evaluate_every is 0, expected at least 1"),
        ({"run_length": 0}, "run_length is 0, expected at least 1"),
        ({"expert_start": -1}, "expert_start is -1, expected 0 or more"),
        ({"skip_steps": (0,)}, r"skip_steps is \(0,\), expected numbers from 1"),
        ({"ema": 1.0}, "ema is 1.0, expected 0 or more and below 1"),
    ],
)
def test_wrong_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_only_what_decides_the_result_must_stay() -> None:
    config = TrainConfig(schedule="cosine")
    same = replace(config, workers=4, log_every=3, trackers=("wandb",), checkpoint_every=7)
    assert same.decisive() == config.decisive()
    assert replace(config, steps=5).decisive() != config.decisive()
    assert (
        replace(config, schedule="constant", steps=5).decisive()
        == replace(config, schedule="constant", steps=6).decisive()
    )


def test_settings_of_later_versions_are_not_stored_at_their_defaults() -> None:
    """So a checkpoint of before there were any still belongs to the same run."""
    assert not set(ADDED) & CONFIG.decisive().keys()
    assert replace(CONFIG, expert_start=5).decisive()["expert_start"] == 5
    assert replace(CONFIG, run_length=4).decisive()["run_length"] == 4


def test_skipped_steps_decide_only_what_follows_them() -> None:
    settings = {"seed": 3, "skip_steps": [9, 4]}
    assert decided_until(settings, 3) == {"seed": 3}
    assert decided_until(settings, 4) == {"seed": 3, "skip_steps": [4]}
    assert decided_until(settings, 20) == {"seed": 3, "skip_steps": [4, 9]}


def test_unknown_names_are_answered_with_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown optimizer 'adam'; .*: adamw"):
        TrainConfig(optimizer="adam")
    with pytest.raises(ValueError, match=r"unknown tracker 'tensorbord'; .*: tensorboard"):
        TrainConfig(trackers=("tensorbord",))


def test_a_short_run_ends_its_warm_up() -> None:
    preset = tokenizer_preset("small").train

    def warmup(**changes: int) -> int:
        return resolve_config(changes, preset).warmup_steps

    assert (warmup(), warmup(steps=100), warmup(steps=3)) == (100, 20, 0)


def test_a_config_is_taken_as_it_is_and_settings_change_the_preset() -> None:
    preset = replace(CONFIG, batch_size=8)
    assert resolve_config(None, preset) == replace(preset, warmup_steps=1)
    assert resolve_config({"seed": 3, "steps": 20}, preset) == replace(preset, seed=3, steps=20)
    assert resolve_config(CONFIG, preset) is CONFIG
    assert asked_settings({"seed": 3}) == {"seed": 3}
    assert asked_settings(CONFIG)["steps"] == CONFIG.steps
    assert asked_settings(None) == {}
    with pytest.raises(ValueError, match=r"unknown training setting 'step'; .*: steps"):
        resolve_config({"step": 3}, preset)
