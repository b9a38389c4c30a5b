"""What every policy offers, whatever its kind: the one place where its methods are declared."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from oatkit.data import Normalizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Budget, Head, Prediction, Sampling, Schedule, Tokens


class PolicyConfig(Protocol):
    """A config of a policy: a frozen dataclass that names its kind."""

    @property
    def kind(self) -> str:
        """Name in the table of policies."""


class ActingPolicy(Protocol):
    """A policy as simulators and robots see it: it reads observations and predicts chunks."""

    @property
    def spec(self) -> ObservationSpec:
        """What the policy observes."""

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; a ValueError names what is wrong with it.

        Args:
            observation: LeRobot's keys. One frame, or a batch with its history.
            allow_more: Whether parts that the policy does not read are ignored, as simulators give
                them; otherwise another camera is an error.
        """

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        sampling: Sampling = Sampling(),
        generator: Generators = None,
        deadline_ms: float | None = None,
        draws: int = 1,
        committed: Any = None,
    ) -> Prediction:
        """Chunks that follow the observations.

        Args:
            observation: LeRobot's keys, or what `read` made of them. One frame, whose history the
                policy keeps since `reset` (see `observe`), or a batch with its history, of which
                nothing is kept.
            budget: Largest number of tokens; all by default. Inside a block the block is run whole.
                "auto" stops when the chunk no longer moves or the tokens are near certain.
            schedule: Another schedule than the policy was trained under, which warns once.
            sampling: Rules by which ids are chosen. A sequence of `fast` that does not decode is
                generated again by `Sampling.for_redraw`.
            generator: One for the batch, or one or a seed for each row, instead of the seed of
                `sampling`.
            deadline_ms: Time after which the chunk must be there: generation stops at the last
                trained budget that fits, at the first at the latest.
            draws: Number of chunks for each observation, all in `Prediction.draws`. The first is as
                it would be alone; the others have random numbers of their own, and sample where
                `sampling` is greedy.
            committed: Actions that are executed before the chunk acts, (B, steps, action_dim), or
                (steps, action_dim) for every row, in raw units: the chunk is to begin with them, as
                near as its tokens come. None or no steps for nothing. It is for tokens whose
                prefixes decode (`oat`, `oat-pow2`, `klt`); others raise a ValueError.

        Where a flow expert acts, a budget is a number of Euler steps (there is no "auto"), a
        deadline chooses how many fit, the temperature scales the noise that it starts from (0 is
        no noise), and there are no schedules.
        """


class Policy(ActingPolicy, Protocol):
    """A network with its tokenizer and what it observes: trained, measured, stored and served.

    Attributes:
        episode: Reads observations; it holds nothing that is trained, so that processes which read
            data get it instead of the policy.
        head: What predicts chunks, one of `heads`.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        execution: How many steps of a chunk are worth executing; None until that is calibrated.
        extras: Further JSON for `config.json`, such as how the policy was trained.
    """

    episode: EpisodeReader
    head: Head
    auto: AutoThresholds | None
    execution: AutoExecution | None
    extras: dict[str, Any]

    @property
    def kind(self) -> str:
        """Name in the table of policies."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """What was trained."""

    @property
    def net(self) -> Any:
        """The network, a torch module."""

    @property
    def tokenizer(self) -> ActionTokenizer:
        """The frozen tokenizer."""

    @property
    def schedule(self) -> Schedule:
        """Blocks in which the policy was trained to generate."""

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets at which a policy is measured."""

    @property
    def tokens_suffice(self) -> bool:
        """Whether the tokenizer alone makes the chunk of the tokens, without what was observed."""

    @property
    def rows_at_once(self) -> int:
        """Number of observations that fit in memory together."""

    @property
    def device(self) -> torch.device: ...

    @property
    def digest(self) -> str:
        """Hash of weights, network config and tokenizer, which changes when any of them does."""

    def reset(self) -> None:
        """Start a new episode: forget past frames; the next frame fills the whole history."""

    def observe(self, observation: Mapping[str, Any] | Observations) -> None:
        """Add one frame to the history without predicting, at a step between two predictions."""

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of observations and what follows them, as tokens and as raw actions.

        Args:
            observations: Observations of the batch.
            tokens: Tokens of the chunks that follow.
            actions_BTA: The chunks, raw units.
            random: Random numbers of the samples.
            is_pad_BT: bool, steps past the end of an episode, which repeat its last action; None if
                there are none.
        """

    def flow_loss(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        context: Any = None,
    ) -> Tensor:
        """The flow part of the loss on raw actions, a scalar; images stay as they are.

        A context that the network has encoded of the observations already need not be so again.
        """

    def logits(self, observations: Observations, ids_BK: Tensor, schedule: Schedule) -> Tensor:
        """Logits of a packed pass over true tokens, (B, K, V)."""

    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """Generate all tokens once, without retrying; used for measuring."""

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find the thresholds of `budget="auto"` and how many steps of a chunk are worth executing,
        on held-out observations and their raw actions.

        There are no thresholds where generation cannot stop early.
        """

    def with_tasks(self, tasks: Sequence[str]) -> Policy:
        """The same policy with further tasks, which are yet to be trained."""

    def to(self, device: torch.device | str) -> Policy:
        """Move network and tokenizer to a device; returns itself."""

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact."""

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artifact to the Hugging Face hub; returns its address."""


class SharingPolicy(Policy, Protocol):
    """A policy whose network may be that of policies for other robots too."""

    @property
    def actions(self) -> Normalizer:
        """Raw to normalized actions, as the network computes with them."""

    def normalized_loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of a batch that may be of several robots.

        Args:
            observations: Observations of the batch, as the network takes them.
            tokens: Tokens of the chunks that follow.
            actions_BTA: The chunks, normalized, of the network's steps and dimensions.
            random: Random numbers of the samples.
            is_pad_BT: bool, steps past the end of an episode; None if there are none.
            weight_BA: Weight of each dimension of each chunk, 0 for padding; None for 1.
        """

    def written(self) -> tuple[dict[str, Any], str, Callable[[Path], None] | None]:
        """What an artifact holds beside weights and tokenizer: what is in `config.json`, the model
        card, and a function that writes further files into a folder."""
