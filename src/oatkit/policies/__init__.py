"""Observations to tokens to chunks."""

from oatkit.policies.generation.prediction import Prediction
from oatkit.policies.light.light_config import LightConfig, LightFlowConfig
from oatkit.policies.light.light_flow_policy import LightFlowPolicy
from oatkit.policies.light.light_policy import LightPolicy
from oatkit.policies.policy import ActingPolicy, Policy
from oatkit.policies.policy_table import load_policy
from oatkit.policies.vlm.vlm_config import VlmConfig
from oatkit.policies.vlm.vlm_policy import VlmPolicy

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
    "load_policy",
]
