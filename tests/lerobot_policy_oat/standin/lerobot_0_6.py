"""What LeRobot 0.6.1 has otherwise than 0.4.4."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from tests.lerobot_policy_oat.standin import pi0_fast, policies


@dataclass
class PreTrainedConfig(policies.PreTrainedConfig):
    pretrained_revision: str | None = None


class PreTrainedPolicy(policies.PreTrainedPolicy):
    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        state_dict: dict[str, Tensor] | None = None,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        card_kwargs: dict[str, Any] | None = None,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        self._save_pretrained(Path(save_directory), state_dict=state_dict)
        return None

    def _save_pretrained(
        self, save_directory: Path, state_dict: dict[str, Tensor] | None = None
    ) -> None:
        super()._save_pretrained(save_directory)
        if state_dict is not None:
            from safetensors.torch import save_file

            save_file(state_dict, save_directory / "model.safetensors")


@dataclass
class PI0FastConfig(pi0_fast.PI0FastConfig, PreTrainedConfig):
    action_tokenizer_name: str = "lerobot/fast-action-tokenizer"
    use_relative_actions: bool = False
    relative_exclude_joints: list[str] = field(default_factory=lambda: ["gripper"])
    action_feature_names: list[str] | None = None


class PI0FastPytorch(pi0_fast.PI0FastPytorch):
    scales_in_layer = True


class PI0FastPolicy(pi0_fast.PI0FastPolicy, PreTrainedPolicy):
    config_class = PI0FastConfig


CHANGED = {
    made.__name__: made
    for made in (PreTrainedConfig, PreTrainedPolicy, PI0FastConfig, PI0FastPytorch, PI0FastPolicy)
}
