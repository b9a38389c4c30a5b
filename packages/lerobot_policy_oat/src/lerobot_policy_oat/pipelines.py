"""The two pipelines around a policy of LeRobot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lerobot.processor import (
    DeviceProcessorStep,
    PolicyProcessorPipeline,
    UnnormalizerProcessorStep,
)
from lerobot.processor.converters import policy_action_to_transition, transition_to_policy_action
from lerobot.utils.constants import (
    POLICY_POSTPROCESSOR_DEFAULT_NAME,
    POLICY_PREPROCESSOR_DEFAULT_NAME,
)


def both_pipelines(
    before: Sequence[Any], config: Any, dataset_stats: dict[str, dict[str, Any]] | None
) -> tuple[Any, Any]:
    """The steps before the policy, and raw actions on the CPU after it.

    Args:
        before: Steps.
        config: Of the policy.
        dataset_stats: By feature.
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
