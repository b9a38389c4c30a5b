"""Of `lerobot.processor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from tests.lerobot_policy_oat.standin.policies import FeatureType, NormalizationMode, PolicyFeature


class ProcessorStepRegistry:
    @classmethod
    def register(cls, name: str | None = None) -> Callable[[type], type]:
        return lambda made: made


@dataclass
class RenameObservationsProcessorStep:
    rename_map: dict[str, str] = field(default_factory=dict)


@dataclass
class AddBatchDimensionProcessorStep:
    pass


@dataclass
class DeviceProcessorStep:
    device: str = "cpu"
    float_dtype: str | None = None


@dataclass
class NormalizerProcessorStep:
    features: dict[str, PolicyFeature]
    norm_map: dict[FeatureType, NormalizationMode]
    stats: dict[str, dict[str, Any]] | None = None


@dataclass
class UnnormalizerProcessorStep(NormalizerProcessorStep):
    pass


@dataclass
class TokenizerProcessorStep:
    tokenizer_name: str | None = None
    tokenizer: Any | None = None
    max_length: int = 512
    task_key: str = "task"
    padding_side: str = "right"
    padding: str = "max_length"
    truncation: bool = True


@dataclass
class ActionTokenizerProcessorStep:
    action_tokenizer_name: str | None = None
    action_tokenizer_input_object: Any | None = None
    trust_remote_code: bool = True
    max_action_tokens: int = 256
    fast_skip_tokens: int = 128
    paligemma_tokenizer_name: str = "google/paligemma-3b-pt-224"
    action_tokenizer: Any = field(default=None, init=False, repr=False)
    _paligemma_tokenizer: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        from transformers import AutoProcessor, AutoTokenizer

        self.action_tokenizer = self.action_tokenizer_input_object
        if self.action_tokenizer is None:
            self.action_tokenizer = AutoProcessor.from_pretrained(self.action_tokenizer_name)
        self._paligemma_tokenizer = AutoTokenizer.from_pretrained(self.paligemma_tokenizer_name)

    def _tokenize_action(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """`<bos> "Action: " ids "|" <eos>`, cut or padded with 0 to max_action_tokens."""
        text, rows = self._paligemma_tokenizer, []
        top = text.vocab_size - 1 - self.fast_skip_tokens
        for chunk in action:
            (ids,) = self.action_tokenizer(chunk[None].cpu())
            lead = [text.bos_token_id, *text.encode("Action: ", add_special_tokens=False)]
            row = lead + [top - i for i in ids] + text.encode("|")
            rows.append(torch.tensor(row[: self.max_action_tokens]))
        size = self.max_action_tokens
        tokens = torch.stack([F.pad(row, (0, size - len(row))) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        return tokens, torch.arange(size) < lengths[:, None]

    def get_config(self) -> dict[str, Any]: ...


@dataclass
class PolicyProcessorPipeline:
    steps: list[Any] = field(default_factory=list)
    name: str = "DataProcessorPipeline"
    to_transition: Any = None
    to_output: Any = None


def policy_action_to_transition(action: Any) -> Any: ...


def transition_to_policy_action(transition: Any) -> Any: ...
