"""A flow expert that is trained apart: its own learning rate and a late start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from oatkit.errors import TrainingError
from oatkit.train import TrainConfig, read_log, train
from oatkit.train.parameter_groups import make_optimizer, set_learning_rates
from tests.train.regression import CONFIG, Regression, assert_equal, trained


class TwoParts(nn.Module):
    """A trunk and an expert that reads it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.trunk, self.expert = nn.Linear(3, 8), nn.Linear(8, 1)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.expert(self.trunk(inputs).tanh())


def trained_parts(out: Path, config: TrainConfig) -> TwoParts:
    job = Regression()
    job.module = TwoParts()
    train(job, config, out, show_progress=False)
    return job.module


def rates(config: TrainConfig, step: int) -> list[float]:
    optimizer = make_optimizer(TwoParts(), config)
    set_learning_rates(optimizer, config, step)
    return [group["lr"] for group in optimizer.param_groups]


def test_without_settings_all_is_one_group() -> None:
    optimizer = make_optimizer(TwoParts(), CONFIG)
    assert [len(group["params"]) for group in optimizer.param_groups] == [4]
    assert rates(CONFIG, 1) == [CONFIG.learning_rate_at(1)]


def test_the_expert_has_its_own_learning_rate() -> None:
    config = replace(CONFIG, expert_learning_rate=3 * CONFIG.learning_rate)
    for step in (0, 1, 5):
        shared, own = rates(config, step)
        assert shared == CONFIG.learning_rate_at(step)
        assert own == pytest.approx(3 * shared)


def test_the_expert_starts_late_and_warms_up_then() -> None:
    """The shared rates are those of a run without the setting, the expert's a schedule of its own
    that ends with the run."""
    config = replace(CONFIG, steps=20, warmup_steps=4, expert_start=6)
    plain = replace(CONFIG, steps=20, warmup_steps=4)
    found = [rates(config, step) for step in range(20)]
    assert [shared for shared, _ in found] == [plain.learning_rate_at(step) for step in range(20)]
    shorter = replace(plain, steps=14)
    expected = [0.0] * 6 + [shorter.learning_rate_at(step) for step in range(14)]
    assert [own for _, own in found] == expected


def test_the_expert_and_its_moments_begin_at_its_start(tmp_path: Path) -> None:
    before = TwoParts().expert.weight
    config = replace(CONFIG, ema=0.0, expert_start=6, checkpoint_every=6, keep_checkpoints=9)
    after = trained_parts(tmp_path, config)
    early = load_file(tmp_path / "checkpoints/step-00000006/model.safetensors")
    assert torch.equal(early["expert.weight"], before)
    assert not torch.equal(early["trunk.weight"], TwoParts().trunk.weight)
    moments = load_file(tmp_path / "checkpoints/step-00000006/optimizer.safetensors")
    assert not [name for name in moments if name.startswith("expert.")]
    moments = load_file(tmp_path / "checkpoints/step-00000008/optimizer.safetensors")
    assert (moments["expert.weight/step"], moments["trunk.weight/step"]) == (2, 8)
    assert not torch.equal(after.expert.weight, before)
    rows = {row["step"]: row["expert_learning_rate"] for row in read_log(tmp_path)}
    assert rows[6] == 0
    assert rows[8] > 0


@pytest.mark.parametrize("optimizer", ["adamw", "soap"])
def test_two_groups_at_one_rate_are_one_group(tmp_path: Path, optimizer: str) -> None:
    """Checkpoints name what they hold after parameters, so the two have the same ones."""
    config = replace(CONFIG, optimizer=optimizer)
    one = trained_parts(tmp_path / "one", config)
    two = trained_parts(
        tmp_path / "two", replace(config, expert_learning_rate=CONFIG.learning_rate)
    )
    assert_equal(one.state_dict(), two.state_dict())
    last = "checkpoints/step-00000008/optimizer.safetensors"
    assert_equal(*(load_file(tmp_path / name / last) for name in ("one", "two")))


def test_a_run_of_two_groups_goes_on(tmp_path: Path) -> None:
    config = replace(CONFIG, schedule="constant", expert_start=3, expert_learning_rate=1e-3)
    whole = trained_parts(tmp_path / "whole", config)
    trained_parts(tmp_path / "parts", replace(config, steps=5))
    parts = trained_parts(tmp_path / "parts", config)
    assert_equal(whole.state_dict(), parts.state_dict())


def test_frozen_parameters_are_left_out() -> None:
    module = TwoParts()
    module.trunk.requires_grad_(False)
    (group,) = make_optimizer(module, CONFIG).param_groups
    assert group["params"] == [module.expert.weight, module.expert.bias]
    config = replace(CONFIG, expert_learning_rate=0.5, warmup_steps=0)
    optimizer = make_optimizer(module, config)  # nothing but the expert is trained
    set_learning_rates(optimizer, config, 0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5]
    module.expert.requires_grad_(False)
    with pytest.raises(TrainingError, match="all parameters are frozen"):
        make_optimizer(module, CONFIG)


def test_a_module_without_an_expert_refuses_its_settings(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no flow expert to train apart: leave --expert-"):
        trained(tmp_path, replace(CONFIG, expert_start=2))
