"""`light-flow`: the light policy with a flow head in place of tokens, as an artifact, and how it
acts; the network is in `light_flow_net`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oatkit.data import Dataset, Normalizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.nn.weight_loading import WithoutWeights
from oatkit.policies.generation.auto_execution import AutoExecution, calibrate_execution
from oatkit.policies.generation.budget_limits import step_choices
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.flow_predictor import FlowPredictor
from oatkit.policies.generation.prediction import PredictionOptions
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.light.light_config import LightFlowConfig
from oatkit.policies.light.light_flow_net import LightFlowNet
from oatkit.policies.light.observation_encoder import load_for_more_tasks, resized_reading
from oatkit.policies.normalized_actions import normalized_actions
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import (
    CPU,
    SCHEMA,
    VERSION,
    load_weights,
    model_card,
    policy_digest,
    read_policy,
    write_policy,
)
from oatkit.policies.tokenizer_checks import require_same_actions
from oatkit.storage.artifact import UNTRAINED, upload, warn_of_random_weights
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import written_settings
from oatkit.types import Budget, Head, Prediction, Sampling, Schedule, Tokens


class LightFlowPolicy:
    """The network with its tokenizer and what it observes: a `Policy`.

    Args:
        net: The network, trained or not.
        tokenizer: A tokenizer, of which only the shape of chunks and the normalizer are used.
        spec: What is observed.

    Attributes:
        auto: None: there are no tokens whose generation could stop early.
        execution: How many steps of a chunk are worth executing; None until that is calibrated.
        extras: Further JSON for `config.json`, such as how the policy was trained.
    """

    kind = "light-flow"
    heads: tuple[Head, ...] = ("flow",)
    tokens_suffice = False
    rows_at_once = 256

    def __init__(
        self, net: LightFlowNet, tokenizer: ActionTokenizer, spec: ObservationSpec
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec
        self.auto: AutoThresholds | None = None
        self.execution: AutoExecution | None = None
        self.extras: dict[str, Any] = {}
        self.head: Head = "flow"
        read = partial(read_observation, spec)
        resized = partial(resized_reading, net.config.sizes, spec)
        self.episode = EpisodeReader(read, spec.history, resized)
        self.flow_predictor = FlowPredictor(
            net, tokenizer.normalizer, spec, self.episode, tokenizer.horizon
        )

    @classmethod
    def make(
        cls,
        config: LightFlowConfig,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        net: LightFlowNet | None = None,
    ) -> LightFlowPolicy:
        """An untrained policy, or one around the network of another robot's."""
        net = net or LightFlowNet(config, spec, spec.chunk_shape(tokenizer))
        return cls(net.eval(), tokenizer, spec)

    @classmethod
    def for_dataset(
        cls,
        config: LightFlowConfig,
        tokenizer: ActionTokenizer,
        dataset: Dataset,
        *,
        net: LightFlowNet | None = None,
        **observes: Any,
    ) -> LightFlowPolicy:
        """An untrained policy for a dataset, around the network of another robot's if one is given;
        `observes` is for `ObservationSpec.for_dataset`."""
        require_same_actions(tokenizer, dataset)
        spec = ObservationSpec.for_dataset(dataset, **{"history": 2, **observes})
        policy = cls.make(config, tokenizer, spec, net)
        policy.extras[UNTRAINED] = True
        return policy

    @property
    def actions(self) -> Normalizer:
        """Raw to normalized actions: the tokenizer's."""
        return self.tokenizer.normalizer

    @property
    def budgets(self) -> tuple[int, ...]:
        """Numbers of Euler steps at which a policy is measured."""
        return step_choices(self.net.num_steps)

    @property
    def schedule(self) -> Schedule:
        """The tokenizer's own schedule, which this policy does not use."""
        return self.tokenizer.schedule

    @property
    def device(self) -> torch.device:
        return self.net.device

    @property
    def digest(self) -> str:
        """Hash of weights, network config and tokenizer, which changes when any of them does."""
        return policy_digest(self)

    def to(self, device: torch.device | str) -> LightFlowPolicy:
        """Move network and tokenizer to a device; returns itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        return self

    def with_tasks(self, tasks: Sequence[str]) -> LightFlowPolicy:
        """The same policy with further tasks, whose embeddings are yet to be trained."""
        policy = self.make(self.net.config, self.tokenizer, self.spec.with_more_tasks(tasks))
        load_for_more_tasks(policy.net, self.net.state_dict())
        return policy

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        horizon, action_dim = self.net.chunk_shape
        return f"LightFlowPolicy({count:,} parameters, {horizon} x {action_dim} actions)"

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss on raw actions. The tokens are unused."""
        normal = normalized_actions(self.actions, self.spec, observations, actions_BTA, is_pad_BT)
        return self.normalized_loss(observations, tokens, normal[0], random, normal[1])

    def normalized_loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss, perhaps of several robots; see `SharingPolicy`."""
        self.extras.pop(UNTRAINED, None)  # whoever trains it knows
        masked_BT = self._masked(is_pad_BT)
        return self.net.loss(observations, actions_BTA, random, masked_BT, weight_BA)

    def flow_loss(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        context: Any = None,
    ) -> Tensor:
        """The loss on raw actions, a scalar; images stay as they are and nothing is dropped."""
        if context is None:
            context = self.net.encode(observations)
        normal = normalized_actions(self.actions, self.spec, observations, actions_BTA, is_pad_BT)
        return self.net.flow_loss(context, normal[0], random, self._masked(normal[1]))

    def _masked(self, is_pad_BT: Tensor | None) -> Tensor | None:
        """Padding that the loss leaves out; None if it counts."""
        return is_pad_BT if self.net.config.mask_padding else None

    def logits(self, observations: Observations, ids_BK: Tensor, schedule: Schedule) -> Tensor:
        raise TypeError("the light-flow policy has no tokens")

    # Acting

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; see `Policy.read`."""
        return self.episode.read(observation, allow_more=allow_more)

    def reset(self) -> None:
        """Start a new episode: forget past frames; the next frame fills the whole history."""
        self.episode.reset()

    def observe(self, observation: Mapping[str, Any] | Observations) -> None:
        """Add one frame to the history without predicting, at a step between two predictions."""
        self.episode.observe(observation)

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
        """Integrate the flow; see `Policy.predict_action_chunk`."""
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} policy", "train_policy")
        given = (budget, schedule, sampling, generator, deadline_ms)
        options = PredictionOptions(*given, None, self.execution, draws, committed)
        return self.flow_predictor.predict(observation, options)

    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """Predict once; used for measuring."""
        return self.flow_predictor.generate_once(observations, generator, thresholds, sampling)

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find how much of a chunk to execute; see `Policy.calibrate`."""
        self.execution = calibrate_execution(self, observations, actions_BTA, generator)

    # The artifact

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "kind": self.kind,
            "net": asdict(self.net.config) | {"sizes": written_settings(self.net.config.sizes)},
            "observation": self.spec.to_json(),
            "auto": None,
            "execution": None if self.execution is None else self.execution.to_json(),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact: `config.json`, `model.safetensors`, `tokenizer/` and a model card."""
        return write_policy(folder, self, *self.written())

    def written(self) -> tuple[dict[str, Any], str, None]:
        """Settings and model card; see `SharingPolicy`."""
        spec = self.spec
        card = model_card(
            "light-flow policy",
            f"{spec.describe()}; {spec.history} frames; {len(spec.tasks)} tasks",
            self.tokenizer,
            tags="robotics, action-policy",
            call="observation, budget=5",
        )
        return self.to_json(), card, None

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artifact to the Hugging Face hub; returns its address."""
        return upload(self.save_pretrained, repo_id, private=private)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        dtype: torch.dtype | None = None,
        device: torch.device = CPU,
        net: LightFlowNet | None = None,
    ) -> LightFlowPolicy:
        """Read an artifact; see `load_policy`."""
        found = read_policy(folder, has_weights=net is None)
        config = LightFlowConfig.from_json(found.config["net"])
        with WithoutWeights():
            policy = cls.make(config, found.tokenizer, found.spec, net)
        if net is None:
            load_weights(policy.net, found, dtype, device, float32=("state",))
        policy.tokenizer.to(device)
        policy.execution, policy.extras = found.execution, found.extras
        return policy
