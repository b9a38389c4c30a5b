"""`light-flow`: what the light policy with a flow head in place of tokens brings; the network is in
`light_flow_net`.

Shape letters: B batch, T step in the chunk, A action dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from oatkit.data import Normalizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.light.light_config import LightFlowConfig
from oatkit.policies.light.light_flow_net import LightFlowNet
from oatkit.policies.light.observation_encoder import light_reader, load_for_more_tasks
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import OpenedPolicy
from oatkit.policies.policy_card import PolicyCard
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import written_settings
from oatkit.types import Head, Schedule, Tokens


class LightFlowModel:
    """The network with its tokenizer and what it observes: a `PolicyModel`.

    Args:
        net: The network, trained or not.
        tokenizer: A tokenizer, of which only the shape of chunks and the normalizer are used.
        spec: What is observed.
    """

    kind = "light-flow"
    heads: tuple[Head, ...] = ("flow",)
    rows_at_once = 256
    correct = None

    def __init__(
        self, net: LightFlowNet, tokenizer: ActionTokenizer, spec: ObservationSpec
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec

    @classmethod
    def make(
        cls,
        config: LightFlowConfig,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        net: LightFlowNet | None = None,
    ) -> LightFlowModel:
        """An untrained model, or one around the network of another robot's."""
        net = net or LightFlowNet(config, spec, spec.chunk_shape(tokenizer))
        return cls(net.eval(), tokenizer, spec)

    @classmethod
    def read(cls, found: OpenedPolicy, net: LightFlowNet | None = None) -> LightFlowModel:
        """The model of an artifact, whose weights are yet to be loaded."""
        config = LightFlowConfig.from_json(found.config["net"])
        return cls.make(config, found.tokenizer, found.spec, net)

    @property
    def actions(self) -> Normalizer:
        """Raw to normalized actions: the tokenizer's."""
        return self.tokenizer.normalizer

    @property
    def schedule(self) -> Schedule:
        """The tokenizer's own schedule, which a flow does not use."""
        return self.tokenizer.schedule

    def episode_reader(self) -> EpisodeReader:
        """Reads states, images and the number of a task; see `PolicyModel`."""
        return light_reader(self.net.config.sizes, self.spec)

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of normalized actions; the tokens are unused."""
        assert random is not None
        return self.net.loss(observations, actions_BTA, random, masked_BT, weight_BA)

    def with_tasks(self, tasks: Sequence[str]) -> LightFlowModel:
        """The same model with further tasks, whose embeddings are yet to be trained."""
        model = self.make(self.net.config, self.tokenizer, self.spec.with_more_tasks(tasks))
        load_for_more_tasks(model.net, self.net.state_dict())
        return model

    def settings(self) -> dict[str, Any]:
        """The config of the network; see `PolicyModel`."""
        sizes = written_settings(self.net.config.sizes)
        return {"net": asdict(self.net.config) | {"sizes": sizes}}

    def card(self) -> PolicyCard:
        """What README.md says; see `PolicyModel`."""
        return PolicyCard(
            "light-flow policy",
            f"{self.spec.describe()}; {self.spec.history} frames; {len(self.spec.tasks)} tasks",
            call="observation, budget=5",
        )
