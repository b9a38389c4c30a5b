"""Observations to tokens to chunks.

Names are loaded when first used, so that what needs no network (`observation/`) costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oatkit.policies.light.light_config import LightConfig, LightFlowConfig
    from oatkit.policies.light.light_flow_policy import LightFlowPolicy
    from oatkit.policies.light.light_policy import LightPolicy
    from oatkit.policies.policy import ActingPolicy, Policy
    from oatkit.policies.policy_table import load_policies, load_policy
    from oatkit.policies.vlm.vlm_config import VlmConfig
    from oatkit.policies.vlm.vlm_policy import VlmPolicy
    from oatkit.types import Prediction

__all__ = [
    "ActingPolicy",
    "LightConfig",
    "LightFlowConfig",
    "LightFlowPolicy",
    "LightPolicy",
    "Policy",
    "Prediction",
    "VlmConfig",
    "VlmPolicy",
    "load_policies",
    "load_policy",
]

_HOMES = {
    "ActingPolicy": "oatkit.policies.policy",
    "LightConfig": "oatkit.policies.light.light_config",
    "LightFlowConfig": "oatkit.policies.light.light_config",
    "LightFlowPolicy": "oatkit.policies.light.light_flow_policy",
    "LightPolicy": "oatkit.policies.light.light_policy",
    "Policy": "oatkit.policies.policy",
    "Prediction": "oatkit.types",
    "VlmConfig": "oatkit.policies.vlm.vlm_config",
    "VlmPolicy": "oatkit.policies.vlm.vlm_policy",
    "load_policies": "oatkit.policies.policy_table",
    "load_policy": "oatkit.policies.policy_table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'oatkit.policies' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
