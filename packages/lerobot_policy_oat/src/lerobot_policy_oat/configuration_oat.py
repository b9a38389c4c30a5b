"""Settings of `lerobot-train --policy.type=oat`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast, get_args

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.optim.optimizers import AdamWConfig
from lerobot.optim.schedulers import CosineDecayWithWarmupSchedulerConfig
from oatkit import load_tokenizer
from oatkit.errors import unknown_name
from oatkit.policies import LightConfig, LightFlowConfig
from oatkit.types import Budget, Execution, Head, Sampling

FLOW_SETTINGS = ("num_steps", "flow_draws", "mask_padding")
"""Settings that a flow head alone has."""
HORIZON = 32
"""Number of steps in a chunk where neither a tokenizer nor `chunk_size` says it."""


@PreTrainedConfig.register_subclass("oat")
@dataclass
class OATConfig(PreTrainedConfig):
    """oatkit's light policy, on the tokens of an oatkit tokenizer or with a flow head.

    Attributes:
        n_obs_steps: Number of frames that the policy reads.
        head: What predicts chunks: "tokens", or "flow", which integrates them from noise.
        tokenizer_path: Tokenizer artifact, folder or hub id. It is stored with the policy, whose
            configuration then has no path. A flow head takes its horizon and its normalizer alone,
            and needs none.
        chunk_size: Number of steps in a chunk, which is the tokenizer's horizon where there is one.
        n_action_steps: Number of steps that are executed; "auto" for as many as the policy finds
            worth it, which it must have been calibrated for; half of the chunk by default.
        blend: Decay of the weights of older chunks, by which an action is the mean of what all
            chunks planned for its moment; None executes the newest chunk alone.
        net: Sizes of the network.
        num_steps: Number of Euler steps of a flow head, where no budget is named.
        flow_draws: Number of times and noises at which a flow head learns from a chunk.
        mask_padding: Whether a flow head leaves steps past the end of an episode out of its loss.
        budget: Maximum number of tokens to generate, or "auto" for as many as are worth it, which
            the policy must have been calibrated for; all by default. The number of Euler steps of
            a flow head, which has no "auto".
        draws: Number of chunks to generate for an observation, of which the one nearest to the plan
            under way is executed.
        temperature: Divisor of the logits; 0 takes the likeliest ids. The factor of the noise that
            a flow head starts from.
        top_k: Number of likeliest ids to sample from; None for all.
        top_p: Probability that the ids to sample from hold together.
        seed: Seed of the random numbers, which begin again with every episode; None for new ones.
        normalization_mapping: Must be the identity: the policy normalizes for itself, so that
            oatkit can open it without LeRobot.
    """

    n_obs_steps: int = 2
    head: str = "tokens"  # draccus takes no Literal
    tokenizer_path: str | None = None
    chunk_size: int | None = None
    n_action_steps: int | str | None = None
    blend: float | None = None
    net: LightConfig = field(default_factory=LightConfig)
    num_steps: int = LightFlowConfig.num_steps
    flow_draws: int = LightFlowConfig.flow_draws
    mask_padding: bool = LightFlowConfig.mask_padding
    budget: int | str | None = None
    draws: int = 1
    temperature: float = 1.0
    top_k: int | None = 10
    top_p: float = 1.0
    seed: int | None = None
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

    @property
    def sampling(self) -> Sampling:
        """How ids are chosen."""
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    @property
    def execution(self) -> Execution:
        """How chunks become actions."""
        steps = self.n_action_steps
        if isinstance(steps, str) and steps != "auto":
            raise ValueError(f"n_action_steps is {steps!r}, expected a number or 'auto'")
        return Execution("auto" if isinstance(steps, str) else steps, self.blend, draws=self.draws)

    @property
    def asked_budget(self) -> Budget:
        """The budget; whether it is one, the policy says when it is made."""
        return cast(Budget, self.budget)

    @property
    def light_config(self) -> LightConfig | LightFlowConfig:
        """Settings of the light policy with this head; raises where another head has them."""
        if self.head not in get_args(Head):
            raise ValueError(unknown_name("head", self.head, get_args(Head)))
        flow = {name: getattr(self, name) for name in FLOW_SETTINGS}
        if self.head == "flow":
            return LightFlowConfig(self.net, **flow)
        for name, value in flow.items():
            if value != getattr(LightFlowConfig, name):
                raise ValueError(
                    f"{name} is for a flow head: leave --policy.{name} out, or give "
                    "--policy.head=flow"
                )
        return self.net

    @property
    def horizon(self) -> int:
        """Number of steps in a chunk; raises where tokens have no tokenizer to say it."""
        if self.chunk_size is not None:
            return self.chunk_size
        if self.needs_no_tokenizer:
            return HORIZON
        return load_tokenizer(self.require_tokenizer_path()).horizon

    @property
    def needs_no_tokenizer(self) -> bool:
        """Whether there is none, and a flow head does without."""
        return isinstance(self.light_config, LightFlowConfig) and self.tokenizer_path is None

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
        return list(range(self.horizon))

    @property
    def reward_delta_indices(self) -> None:
        return None

    def require_tokenizer_path(self) -> str:
        """The path of the tokenizer, which a new policy on tokens must have."""
        if self.tokenizer_path is None:
            raise ValueError(
                "oat needs a tokenizer: train one with `oatkit tokenizer train`, and name its "
                "folder with --policy.tokenizer_path"
            )
        return self.tokenizer_path
