"""LeRobot's pipelines around the `oat` policy: renaming, batching and devices."""

from __future__ import annotations

from typing import Any

from lerobot.processor import (
    AddBatchDimensionProcessorStep,
    DeviceProcessorStep,
    NormalizerProcessorStep,
    RenameObservationsProcessorStep,
)

from lerobot_policy_oat.configuration_oat import OATConfig
from lerobot_policy_oat.pipelines import both_pipelines


def make_oat_pre_post_processors(
    config: OATConfig, dataset_stats: dict[str, dict[str, Any]] | None = None
) -> tuple[Any, Any]:
    """The pipelines before and after the policy.

    The normalizers do nothing here (every mode is the identity); `lerobot-train` expects to find
    them when it goes on from a checkpoint.

    Args:
        config: Of the policy.
        dataset_stats: By feature.
    """
    before = [
        RenameObservationsProcessorStep(rename_map={}),
        AddBatchDimensionProcessorStep(),
        DeviceProcessorStep(device=config.device),
        NormalizerProcessorStep(
            features={**config.input_features, **config.output_features},
            norm_map=config.normalization_mapping,
            stats=dataset_stats,
        ),
    ]
    return both_pipelines(before, config, dataset_stats)
