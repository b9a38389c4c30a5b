"""LeRobot finds policy and pipelines by its naming rules."""

from __future__ import annotations

import importlib

from tests.lerobot_policy_oat.small_oat import (
    make_config,
)


def test_lerobot_finds_the_classes_by_its_naming_rules(tokenizer_path: str) -> None:
    from lerobot.configs.policies import PreTrainedConfig

    made = PreTrainedConfig.get_choice_class("oat")
    assert made.__name__.endswith("Config")
    stem = made.__module__
    modeling = importlib.import_module(stem.replace("configuration_", "modeling_"))
    policy = getattr(modeling, made.__name__.removesuffix("Config") + "Policy")
    assert (policy.config_class, policy.name) == (made, "oat")
    processing = importlib.import_module(stem.replace("configuration_", "processor_"))
    before, after = processing.make_oat_pre_post_processors(make_config(tokenizer_path))
    assert (before.name, after.name) == ("policy_preprocessor", "policy_postprocessor")
    # what lerobot-train overrides when it goes on from a checkpoint
    names = [type(step).__name__ for step in (*before.steps, *after.steps)]
    for name in ("RenameObservations", "Device", "Normalizer", "Unnormalizer"):
        assert f"{name}ProcessorStep" in names
    assert {mode.value for mode in before.steps[-1].norm_map.values()} == {"IDENTITY"}
