"""What a kind of policy brings: its network with a loss, and what an artifact says of it.

`Policy` holds a model and does all that policies of every kind do alike.

Shape letters: B batch, T step in the chunk, A action dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from oatkit.data import Normalizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.token_generation import Correct
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_card import PolicyCard
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Head, Schedule, Tokens


class PolicyConfig(Protocol):
    """A config of a policy: a frozen dataclass that names its kind."""

    @property
    def kind(self) -> str:
        """Name in the table of policies."""


class PolicyModel(Protocol):
    """A network as one robot has it: with a tokenizer, and with what the robot observes."""

    @property
    def kind(self) -> str:
        """Name in the table of policies."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """What is trained; the first of them acts."""

    @property
    def rows_at_once(self) -> int:
        """Number of observations that fit in memory together."""

    @property
    def net(self) -> Any:
        """The network, a torch module: a `TokenNet` where a head predicts tokens, a `FlowNet` where
        one integrates a flow. Other robots may share it."""

    @property
    def tokenizer(self) -> ActionTokenizer:
        """The frozen tokenizer."""

    @property
    def spec(self) -> ObservationSpec:
        """What is observed."""

    @property
    def actions(self) -> Normalizer:
        """Raw to normalized actions, as the network computes with them."""

    @property
    def schedule(self) -> Schedule:
        """Blocks in which tokens are generated."""

    @property
    def correct(self) -> Correct | None:
        """What the network does to decoded chunks; None where it leaves them as they are."""

    def episode_reader(self) -> EpisodeReader:
        """A new reader of observations. It holds nothing that is trained, so that processes which
        read data get it instead of the model."""

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of a batch that may be of several robots.

        Args:
            observations: Observations of the batch, as the network takes them.
            tokens: Tokens of the chunks that follow.
            actions_BTA: The chunks, normalized, of the network's steps and dimensions.
            random: Random numbers of the samples; None, where the kind takes it, drops and changes
                nothing.
            masked_BT: bool, steps that a flow leaves out of its loss; None if there are none.
            weight_BA: Weight of each dimension of each chunk, 0 for padding; None for 1.
        """

    def with_tasks(self, tasks: Sequence[str]) -> PolicyModel:
        """The same model with further tasks, which are yet to be trained."""

    def settings(self) -> dict[str, Any]:
        """What `config.json` holds of this kind alone: the config of the network as `net`, and
        whatever else it takes to make the model."""

    def card(self) -> PolicyCard:
        """What the artifact's README.md says."""


@runtime_checkable
class WritesFiles(Protocol):
    """A model whose artifact has more than settings, weights, tokenizer and README.md."""

    def write_files(self, folder: Path) -> None:
        """Write the further files into the folder of the artifact."""
