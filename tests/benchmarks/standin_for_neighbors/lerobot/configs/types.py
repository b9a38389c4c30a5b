"""The part of `lerobot.configs.types` that the worker of `benchmarks.neighbors` touches."""

from tests.lerobot_policy_oat.standin.policies import FeatureType, NormalizationMode, PolicyFeature

__all__ = ["FeatureType", "NormalizationMode", "PolicyFeature"]
