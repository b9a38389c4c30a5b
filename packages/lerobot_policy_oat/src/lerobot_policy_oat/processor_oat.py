"""LeRobot's pipelines around the `oat` policy: renaming, batching and devices."""

from __future__ import annotations

from typing import Any

from lerobot.processor import DeviceProcessorStep

from lerobot_policy_oat.configuration_oat import OATConfig
from lerobot_policy_oat.pipelines import Stats, both_pipelines, first_steps, normalizer


def make_oat_pre_post_processors(config: OATConfig, dataset_stats: Stats = None) -> tuple[Any, Any]:
    """The pipelines before and after the policy.

    The normalizers do nothing here (every mode is the identity); `lerobot-train` expects to find
    them when it goes on from a checkpoint.

    Args:
        config: Configuration of the policy.
        dataset_stats: Statistics of the dataset by feature.
    """
    device = DeviceProcessorStep(device=config.device)
    before = [*first_steps(), device, normalizer(config, dataset_stats)]
    return both_pipelines(before, config, dataset_stats)
