"""Observations to tokens to chunks."""

from oatkit.policies.light import LightPolicy
from oatkit.policies.light_net import LightConfig
from oatkit.policies.load import AnyPolicy, load_policy
from oatkit.policies.prediction import Prediction
from oatkit.policies.vlm import VlmPolicy
from oatkit.policies.vlm_config import VlmConfig

__all__ = [
    "AnyPolicy",
    "LightConfig",
    "LightPolicy",
    "Prediction",
    "VlmConfig",
    "VlmPolicy",
    "load_policy",
]
