"""Observations to tokens to chunks.

Names are loaded when first used, so that what needs no network (`observation/`) costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oatkit.policies.acting_policy import ActingPolicy
    from oatkit.policies.light.light_config import LightConfig, LightFlowConfig
    from oatkit.policies.policy import Policy
    from oatkit.policies.policy_table import load_policies, load_policy, policy_for_dataset
    from oatkit.policies.vlm.vlm_config import VlmConfig
    from oatkit.types import Prediction

__all__ = [
    "ActingPolicy",
    "LightConfig",
    "LightFlowConfig",
    "Policy",
    "Prediction",
    "VlmConfig",
    "load_policies",
    "load_policy",
    "policy_for_dataset",
]

_HOMES = {
    "ActingPolicy": "oatkit.policies.acting_policy",
    "LightConfig": "oatkit.policies.light.light_config",
    "LightFlowConfig": "oatkit.policies.light.light_config",
    "Policy": "oatkit.policies.policy",
    "Prediction": "oatkit.types",
    "VlmConfig": "oatkit.policies.vlm.vlm_config",
    "load_policies": "oatkit.policies.policy_table",
    "load_policy": "oatkit.policies.policy_table",
    "policy_for_dataset": "oatkit.policies.policy_table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'oatkit.policies' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
