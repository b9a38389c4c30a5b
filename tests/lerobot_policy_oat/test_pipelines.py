"""What both policies' pipelines have in common."""

from __future__ import annotations

import torch

from tests.lerobot_policy_oat.small_oat import make_config


def test_steps_before_and_after_a_policy() -> None:
    from lerobot_policy_oat.pipelines import both_pipelines, first_steps, normalizer

    config = make_config(None)
    stats = {"action": {"mean": torch.zeros(3), "std": torch.ones(3)}}
    before, after = both_pipelines([*first_steps(), normalizer(config, stats)], config, stats)
    names = [type(step).__name__.removesuffix("ProcessorStep") for step in before.steps]
    assert names == ["RenameObservations", "AddBatchDimension", "Normalizer"]
    assert set(before.steps[-1].features) == {"observation.state", "action"}
    names = [type(step).__name__.removesuffix("ProcessorStep") for step in after.steps]
    assert names == ["Unnormalizer", "Device"]
    assert set(after.steps[0].features) == {"action"}
