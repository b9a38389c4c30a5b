"""Ordered action tokens in LeRobot; LeRobot's commands import this package by its name.

lerobot-train --policy.type=oat --policy.tokenizer_path=out/oat ...
lerobot-train --policy.type=oat --policy.head=flow ...
lerobot-train --policy.type=pi0_fast_oat --policy.action_tokenizer_name=out/oat ...
lerobot-train --policy.type=pi0_fast --policy.action_tokenizer_name=out/fast ...
"""

from importlib.util import find_spec

if find_spec("lerobot") is None:
    raise ModuleNotFoundError(
        "lerobot_policy_oat needs LeRobot: pip install 'lerobot_policy_oat[lerobot]'"
    )

from lerobot_policy_oat.configuration_oat import OATConfig
from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig
from lerobot_policy_oat.fast_tokenizer import register_fast_tokenizer

register_fast_tokenizer()

__version__ = "0.1.0"

__all__ = ["OATConfig", "PI0FastOATConfig"]
