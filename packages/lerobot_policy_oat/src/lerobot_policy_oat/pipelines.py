"""What LeRobot's pipelines before and after our policies have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lerobot.processor import (
    AddBatchDimensionProcessorStep,
    DeviceProcessorStep,
    NormalizerProcessorStep,
    PolicyProcessorPipeline,
    RenameObservationsProcessorStep,
    UnnormalizerProcessorStep,
)
from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action
from lerobot.utils.constants import (
    POLICY_POSTPROCESSOR_DEFAULT_NAME,
    POLICY_PREPROCESSOR_DEFAULT_NAME,
)

Stats = dict[str, dict[str, Any]] | None
"""Statistics of the dataset by feature; None where a checkpoint has them."""


def first_steps() -> list[Any]:
    """The steps that begin every pipeline before a policy: renaming and batching."""
    return [RenameObservationsProcessorStep(rename_map={}), AddBatchDimensionProcessorStep()]


def normalizer(config: Any, dataset_stats: Stats) -> Any:
    """The step that normalizes as the configuration of the policy says."""
    return NormalizerProcessorStep(
        features={**config.input_features, **config.output_features},
        norm_map=config.normalization_mapping,
        stats=dataset_stats,
    )


def both_pipelines(before: Sequence[Any], config: Any, dataset_stats: Stats) -> tuple[Any, Any]:
    """The pipelines before and after the policy; after it, raw actions go to the CPU.

    Args:
        before: Steps before the policy.
        config: Configuration of the policy.
        dataset_stats: Statistics of the dataset by feature.
    """
    after = [
        UnnormalizerProcessorStep(
            features=config.output_features,
            norm_map=config.normalization_mapping,
            stats=dataset_stats,
        ),
        DeviceProcessorStep(device="cpu"),
    ]
    return (
        PolicyProcessorPipeline(steps=list(before), name=POLICY_PREPROCESSOR_DEFAULT_NAME),
        PolicyProcessorPipeline(
            steps=after,
            name=POLICY_POSTPROCESSOR_DEFAULT_NAME,
            to_transition=policy_action_to_transition,
            to_output=transition_to_policy_action,
        ),
    )
