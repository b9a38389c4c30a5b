"""Observations to tokens to chunks."""

from oatkit.policies.generation.prediction import Prediction
from oatkit.policies.light.light_net import LightConfig
from oatkit.policies.light.light_policy import LightPolicy
from oatkit.policies.policy_table import AnyPolicy, load_policy
from oatkit.policies.vlm.vlm_config import VlmConfig
from oatkit.policies.vlm.vlm_policy import VlmPolicy

__all__ = [
    "AnyPolicy",
    "LightConfig",
    "LightPolicy",
    "Prediction",
    "VlmConfig",
    "VlmPolicy",
    "load_policy",
]
