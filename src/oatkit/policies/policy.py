"""What policies of all kinds share beside how they act: history, devices, the hub, the card."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from oatkit.data import Dataset
from oatkit.policies.generation.prediction import Latency
from oatkit.policies.generation.token_acting import TokenActing
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.storage.artifact import upload
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Schedule

Own = TypeVar("Own", bound="BasePolicy")


class BasePolicy(ABC):
    """A network with its tokenizer and what it observes."""

    net: nn.Module
    tokenizer: ActionTokenizer
    spec: ObservationSpec
    history: FrameHistory[Observations]
    acting: TokenActing

    def to(self: Own, device: torch.device | str) -> Own:
        """Move network and tokenizer to a device; gives itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        self.acting.latencies.clear()
        return self

    def reset(self) -> None:
        """Forget the frames of the episode; the next one is repeated as its own history."""
        self.history.clear()

    @abstractmethod
    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation."""

    def observe(self, observation: Mapping[str, Any] | Observations) -> None:
        """Add one frame to the history without predicting, at a step between two predictions."""
        frame = observation if isinstance(observation, Observations) else self.read(observation)
        if not frame.is_single_frame:
            raise ValueError("observe() takes one frame; a batch brings its history with it")
        self.history.add(frame)

    def latency(self, batch_size: int = 1, schedule: Schedule | None = None) -> Latency:
        """How long each stage and decoding take here; measured when first asked for."""
        return self.acting.latency(batch_size, schedule)

    @abstractmethod
    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact."""

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artifact to the Hugging Face hub; gives its address."""
        return upload(self.save_pretrained, repo_id, private=private)


def require_same_actions(tokenizer: ActionTokenizer, dataset: Dataset) -> None:
    """Raise unless the tokenizer is for actions of this dataset's size."""
    if tokenizer.action_dim != dataset.action_dim:
        raise ValueError(
            f"the tokenizer is for {tokenizer.action_dim} action dimensions, {dataset.path} "
            f"has {dataset.action_dim}"
        )


def require_endpoints(endpoints: tuple[int, ...] | None, tokenizer: ActionTokenizer) -> None:
    """Raise unless a schedule of one's own ends where the tokenizer does."""
    if endpoints is not None and endpoints[-1] != tokenizer.max_tokens:
        raise ValueError(
            f"the schedule ends at {endpoints[-1]} tokens, {tokenizer.kind} has "
            f"{tokenizer.max_tokens}"
        )


def model_card(
    title: str, observes: str, tokenizer: ActionTokenizer, *, tags: str, call: str
) -> str:
    """The artifact's README.md."""
    lines = [
        "---",
        "library_name: oatkit",
        f"tags: [{tags}]",
        "---",
        f"# {title}",
        "",
        f"Observes {observes}. Gives chunks of {tokenizer.horizon} x {tokenizer.action_dim} "
        "actions.",
        "",
        "```python",
        "import oatkit",
        'policy = oatkit.load_policy("this folder or hub id")',
        "policy.reset()",
        f"chunk = policy.predict_action_chunk({call}).chunk",
        "```",
    ]
    return "\n".join(lines) + "\n"
