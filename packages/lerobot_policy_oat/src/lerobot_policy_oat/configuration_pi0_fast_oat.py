"""Settings of `lerobot-train --policy.type=pi0_fast_oat`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.policies.pi0_fast.configuration_pi0_fast import PI0FastConfig
from oatkit import ActionTokenizer, load_tokenizer
from oatkit.types import Execution, Sampling


@PreTrainedConfig.register_subclass("pi0_fast_oat")
@dataclass
class PI0FastOATConfig(PI0FastConfig):
    """LeRobot's `pi0_fast` with a fixed number of tokens, which always decode.

    Attributes:
        action_tokenizer_name: Tokenizer artifact, folder or hub id.
        weights_path: Checkpoint of `pi0_fast` whose weights a new policy starts from; folder or
            hub id.
        n_action_steps: Number of steps that are executed before the next query.
        blend: Decay of the weights of older chunks, by which an action is the mean of what all
            chunks planned for its moment; None executes the newest chunk alone.
        draws: Number of chunks to generate for an observation, of which the one nearest to the plan
            under way is executed.
        budget: Maximum number of tokens to generate; all by default.
        top_k: Number of likeliest ids to sample from; None for all. It counts where LeRobot's
            `temperature` is above 0, and so do `top_p` and `seed`.
        top_p: Probability that the ids to sample from hold together.
        seed: Seed of the random numbers, which begin again with every episode; None for new ones.
        max_action_tokens: Number of slots for the tokens and the text around them.
        normalization_mapping: Modes of LeRobot's normalizers. That of actions is the identity,
            because the tokenizer normalizes them, or the tokenizer's own mode.
    """

    chunk_size: int = 32
    n_action_steps: int | str = 16  # a word is refused in a sentence
    blend: float | None = None
    draws: int = 1
    action_tokenizer_name: str = ""
    weights_path: str | None = None
    budget: int | str | None = None
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    max_action_tokens: int = 32
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.IDENTITY,
            "STATE": NormalizationMode.QUANTILES,
            "ACTION": NormalizationMode.IDENTITY,
        }
    )

    def __post_init__(self) -> None:
        for name, is_what in (("n_action_steps", "steps"), ("budget", "tokens")):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(
                    f"{name} is {value!r}, expected a number of {is_what}: 'auto' is what `oatkit "
                    "policy calibrate` finds, which opens oatkit's policies and checkpoints of the "
                    "type oat, and not those of pi0_fast_oat"
                )
        steps = cast(int, self.n_action_steps)
        if not 1 <= steps <= self.chunk_size:
            raise ValueError(
                f"n_action_steps is {steps}, expected 1 to {self.chunk_size}, the chunk's steps"
            )
        _ = self.execution  # which raises if it is none
        super().__post_init__()

    @property
    def execution(self) -> Execution:
        """How chunks become actions."""
        return Execution(cast(int, self.n_action_steps), self.blend, draws=self.draws)

    @property
    def sampling(self) -> Sampling:
        """How ids are chosen."""
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    @property
    def normalized_input(self) -> bool:
        """Whether actions are normalized before they reach the tokenizer."""
        return self.normalization_mapping["ACTION"] is not NormalizationMode.IDENTITY

    def open_tokenizer(self) -> ActionTokenizer:
        """The tokenizer, if it fits the rest of the configuration."""
        if not self.action_tokenizer_name:
            raise ValueError(
                "pi0_fast_oat needs a tokenizer: train one with `oatkit tokenizer train`, and name "
                "its folder with --policy.action_tokenizer_name"
            )
        if getattr(self, "use_relative_actions", False):  # a setting of LeRobot 0.6
            raise ValueError(
                "pi0_fast_oat encodes the actions that the dataset has: leave "
                "--policy.use_relative_actions out"
            )
        tokenizer = load_tokenizer(
            self.action_tokenizer_name, normalized_input=self.normalized_input
        )
        if not (tokenizer.is_total and tokenizer.is_fixed_length):
            raise ValueError(
                f"pi0_fast_oat needs a fixed number of tokens that always decode, which those of "
                f"{tokenizer.kind} are not: use LeRobot's --policy.type=pi0_fast"
            )
        if tokenizer.horizon != self.chunk_size:
            raise ValueError(
                f"chunk_size is {self.chunk_size}, the tokenizer's horizon is {tokenizer.horizon}: "
                f"give --policy.chunk_size={tokenizer.horizon} and --policy.n_action_steps="
                f"{max(1, tokenizer.horizon // 2)}"
            )
        mode = self.normalization_mapping["ACTION"].value.lower()
        if self.normalized_input and mode != tokenizer.normalizer.mode:
            raise ValueError(
                f"actions are normalized by {mode}, the tokenizer was fitted on "
                f"{tokenizer.normalizer.mode}: let normalization_mapping say IDENTITY for ACTION"
            )
        return tokenizer
