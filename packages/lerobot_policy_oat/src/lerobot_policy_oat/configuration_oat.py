"""What `lerobot-train --policy.type=oat` can be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.optim.optimizers import AdamWConfig
from lerobot.optim.schedulers import CosineDecayWithWarmupSchedulerConfig
from oatkit import load_tokenizer
from oatkit.policies import LightConfig


@PreTrainedConfig.register_subclass("oat")
@dataclass
class OATConfig(PreTrainedConfig):
    """oatkit's light policy on the tokens of an oatkit tokenizer.

    Attributes:
        tokenizer_path: Tokenizer artifact, folder or hub id. It is stored with the policy, whose
            configuration then has none.
        chunk_size: Steps of a chunk; the tokenizer's horizon.
        n_action_steps: How many of them are executed; half of them by default.
        net: Sizes of the network.
        budget: The most tokens to generate; all by default.
        temperature: Of sampling; 0 takes the likeliest ids.
        top_k: Only so many of the likeliest ids.
        normalization_mapping: The policy normalizes for itself, so that its artifact is whole.
    """

    n_obs_steps: int = 2
    tokenizer_path: str | None = None
    chunk_size: int | None = None
    n_action_steps: int | None = None
    net: LightConfig = field(default_factory=LightConfig)
    budget: int | None = None
    temperature: float = 1.0
    top_k: int | None = 10
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: dict.fromkeys(
            ("VISUAL", "STATE", "ACTION"), NormalizationMode.IDENTITY
        )
    )
    optimizer_lr: float = 1e-4
    optimizer_weight_decay: float = 1e-6
    optimizer_grad_clip_norm: float = 1.0
    scheduler_warmup_steps: int = 500
    scheduler_decay_steps: int = 100_000
    scheduler_decay_lr: float = 1e-5

    def get_optimizer_preset(self) -> AdamWConfig:
        return AdamWConfig(
            lr=self.optimizer_lr,
            weight_decay=self.optimizer_weight_decay,
            grad_clip_norm=self.optimizer_grad_clip_norm,
        )

    def get_scheduler_preset(self) -> CosineDecayWithWarmupSchedulerConfig:
        return CosineDecayWithWarmupSchedulerConfig(
            num_warmup_steps=self.scheduler_warmup_steps,
            num_decay_steps=self.scheduler_decay_steps,
            peak_lr=self.optimizer_lr,
            decay_lr=self.scheduler_decay_lr,
        )

    def validate_features(self) -> None:
        """Raise unless there is something to observe and something to do."""
        if self.robot_state_feature is None and not self.image_features:
            raise ValueError(
                f"oat reads observation.state and images, but there are only "
                f"{sorted(self.input_features or {})}"
            )
        if self.action_feature is None:
            raise ValueError(f"oat needs an action, there are {sorted(self.output_features or {})}")
        for kind, mode in self.normalization_mapping.items():
            if mode is not NormalizationMode.IDENTITY:
                raise ValueError(
                    f"oat normalizes for itself, but normalization_mapping says {mode.value} for "
                    f"{kind}: leave it out"
                )

    @property
    def observation_delta_indices(self) -> list[int]:
        return list(range(1 - self.n_obs_steps, 1))

    @property
    def action_delta_indices(self) -> list[int]:
        if self.chunk_size is None:
            return list(range(load_tokenizer(self.require_tokenizer_path()).horizon))
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        return None

    def require_tokenizer_path(self) -> str:
        """The path that a new policy must be told."""
        if self.tokenizer_path is None:
            raise ValueError(
                "oat needs a tokenizer: train one with `oatkit tokenizer train`, and name its "
                "folder with --policy.tokenizer_path"
            )
        return self.tokenizer_path
