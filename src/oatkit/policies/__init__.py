"""Observations to tokens to chunks."""

from oatkit.policies.light import LightPolicy, load_policy
from oatkit.policies.light_net import LightConfig
from oatkit.policies.prediction import Prediction

__all__ = ["LightConfig", "LightPolicy", "Prediction", "load_policy"]
