"""LeRobot's pipelines around `pi0_fast_oat`: those of `pi0_fast` with our tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lerobot.policies.pi0_fast.processor_pi0_fast import (
    Pi0FastPrepareStateAndLanguageTokenizerProcessorStep,
)
from lerobot.processor import (
    ActionTokenizerProcessorStep,
    DeviceProcessorStep,
    ProcessorStepRegistry,
    TokenizerProcessorStep,
)
from oatkit import load_tokenizer

from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig
from lerobot_policy_oat.pipelines import Stats, both_pipelines, first_steps, normalizer

ACTION_LEAD = "Action: "
"""Text before the tokens, the same as in `pi0_fast`."""


@ProcessorStepRegistry.register(name="oat_action_tokenizer_processor")
@dataclass
class OATActionTokenizerProcessorStep(ActionTokenizerProcessorStep):
    """Makes actions tokens between text, as LeRobot's step does, with a tokenizer of oatkit.

    Attributes:
        normalized_input: Whether actions are normalized before this step.
    """

    normalized_input: bool = False

    def __post_init__(self) -> None:
        self.action_tokenizer_input_object = _OpenedAtFirstUse(self)
        super().__post_init__()

    @property
    def num_slots_of_text(self) -> int:
        """Number of slots that the text around the tokens takes."""
        text = self._paligemma_tokenizer
        lead = text.encode(ACTION_LEAD, add_special_tokens=False)
        return 1 + len(lead) + len(text.encode("|"))

    def get_config(self) -> dict[str, Any]:
        """The settings that make the same step again; LeRobot's own step forgets the text
        tokenizer."""
        return {
            "action_tokenizer_name": self.action_tokenizer_name,
            "trust_remote_code": self.trust_remote_code,
            "max_action_tokens": self.max_action_tokens,
            "fast_skip_tokens": self.fast_skip_tokens,
            "paligemma_tokenizer_name": self.paligemma_tokenizer_name,
            "normalized_input": self.normalized_input,
        }


class _OpenedAtFirstUse:
    """The step's tokenizer, opened when it is first called: a policy that only acts never needs
    it."""

    def __init__(self, step: OATActionTokenizerProcessorStep) -> None:
        self._step = step
        self._tokenizer: Any = None

    def __repr__(self) -> str:
        return f"tokenizer {self._step.action_tokenizer_name}"

    def __call__(self, actions: Any) -> list[list[int]]:
        if self._tokenizer is None:
            self._tokenizer = self._open()
        return self._tokenizer(actions)

    def _open(self) -> Any:
        step = self._step
        tokenizer = load_tokenizer(
            step.action_tokenizer_name, normalized_input=step.normalized_input
        )
        needed = tokenizer.max_tokens + step.num_slots_of_text
        if needed > step.max_action_tokens:
            raise ValueError(
                f"the tokens and the text around them take {needed} slots: give "
                f"--policy.max_action_tokens={needed} or more"
            )
        return tokenizer


def make_pi0_fast_oat_pre_post_processors(
    config: PI0FastOATConfig, dataset_stats: Stats = None
) -> tuple[Any, Any]:
    """The pipelines before and after the policy.

    Args:
        config: Configuration of the policy.
        dataset_stats: Statistics of the dataset by feature.
    """
    before = [
        *first_steps(),
        normalizer(config, dataset_stats),
        Pi0FastPrepareStateAndLanguageTokenizerProcessorStep(max_state_dim=config.max_state_dim),
        TokenizerProcessorStep(
            tokenizer_name=config.text_tokenizer_name,
            max_length=config.tokenizer_max_length,
            padding_side="right",
            padding="max_length",
        ),
        OATActionTokenizerProcessorStep(
            action_tokenizer_name=config.action_tokenizer_name,
            max_action_tokens=config.max_action_tokens,
            fast_skip_tokens=config.fast_skip_tokens,
            paligemma_tokenizer_name=config.text_tokenizer_name,
            normalized_input=config.normalized_input,
        ),
        DeviceProcessorStep(device=config.device),
    ]
    return both_pipelines(before, config, dataset_stats)
