"""As much of LeRobot as the plugin touches, for tests where LeRobot is not installed.

Written from the signatures of 0.4.4 and 0.6.1, which `tests/lerobot/test_standin.py` compares with
the real ones. The tests of the plugin run on both, or on the one that is installed.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Any

from tests.lerobot_policy_oat.standin import (
    constants,
    lerobot_0_6,
    pi0_fast,
    policies,
    processor,
)

VERSIONS = ("0.4.4", "0.6.1")

_MODULES: dict[str, tuple[Any, ...]] = {
    "lerobot.configs.policies": (policies.PreTrainedConfig,),
    "lerobot.configs.types": (
        policies.FeatureType,
        policies.NormalizationMode,
        policies.PolicyFeature,
    ),
    "lerobot.optim.optimizers": (policies.AdamWConfig,),
    "lerobot.optim.schedulers": (policies.CosineDecayWithWarmupSchedulerConfig,),
    "lerobot.policies.pretrained": (policies.PreTrainedPolicy,),
    "lerobot.policies.pi0_fast.configuration_pi0_fast": (pi0_fast.PI0FastConfig,),
    "lerobot.policies.pi0_fast.modeling_pi0_fast": (
        pi0_fast.PI0FastPolicy,
        pi0_fast.PI0FastPytorch,
    ),
    "lerobot.policies.pi0_fast.processor_pi0_fast": (
        pi0_fast.Pi0FastPrepareStateAndLanguageTokenizerProcessorStep,
    ),
    "lerobot.processor": (
        processor.ActionTokenizerProcessorStep,
        processor.AddBatchDimensionProcessorStep,
        processor.DeviceProcessorStep,
        processor.NormalizerProcessorStep,
        processor.PolicyProcessorPipeline,
        processor.ProcessorStepRegistry,
        processor.RenameObservationsProcessorStep,
        processor.TokenizerProcessorStep,
        processor.UnnormalizerProcessorStep,
    ),
    "lerobot.processor.converters": (
        processor.policy_action_to_transition,
        processor.transition_to_policy_action,
    ),
}
CONSTANTS = {name: value for name, value in vars(constants).items() if name.isupper()}


def modules(version: str) -> dict[str, dict[str, Any]]:
    """Contents of the modules of a version, by their names."""
    changed = lerobot_0_6.CHANGED if version == "0.6.1" else {}
    return {
        module: {thing.__name__: changed.get(thing.__name__, thing) for thing in things}
        for module, things in _MODULES.items()
    }


@contextmanager
def installed(version: str) -> Iterator[None]:
    """The stand-in in the place of LeRobot, and the plugin imported anew on it."""
    before = dict(sys.modules)
    contents = modules(version)
    contents["lerobot"] = {"__version__": version}
    contents["lerobot.utils.constants"] = CONSTANTS
    for name, things in contents.items():
        parts = name.split(".")
        for size in range(1, len(parts) + 1):
            path = ".".join(parts[:size])
            module = sys.modules.setdefault(path, types.ModuleType(path))
            module.__spec__ = ModuleSpec(path, None)
        vars(sys.modules[name]).update(things)
    try:
        yield
    finally:
        for name in list(sys.modules):
            if name.split(".")[0] in ("lerobot", "lerobot_policy_oat") and name not in before:
                del sys.modules[name]
