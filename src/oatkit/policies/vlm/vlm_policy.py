"""`vlm-ar`, `vlm-tc` and `vlm-flow`: vision-language policies as artifacts, and how they act.

config.json  model.safetensors  README.md   as in every artifact
tokenizer/                                  tokenizer of the actions
backbone/                                   config, tokenizer and image processor of the backbone
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oatkit.data import Dataset, Normalizer
from oatkit.data.action_normalizer import fit_action_normalizer
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
from oatkit.policies.generation.token_predictor import TokenPredictor
from oatkit.policies.normalized_actions import normalized_actions
from oatkit.policies.observation.episode_reader import EpisodeReader
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
from oatkit.policies.tokenizer_checks import (
    require_endpoints,
    require_same_actions,
    require_trained_tokenizer,
)
from oatkit.policies.vlm.backbones.adapter_merging import merge_adapters
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.trained_parts import train_parts
from oatkit.policies.vlm.vlm_config import VlmConfig, keep_precision, require_successor
from oatkit.policies.vlm.vlm_net import VlmNet
from oatkit.policies.vlm.vlm_reader import VlmReader, resized_reading
from oatkit.storage.artifact import UNTRAINED, upload, warn_of_random_weights
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Budget, Head, Prediction, Sampling, Schedule, Tokens

OWN_KEYS = ("vocab_size", "tokenizer_digest", "actions")
"""Entries of `config.json` that only these policies have."""


class VlmPolicy:
    """The network with its tokenizer and what it observes: a `Policy`.

    Args:
        net: The network, trained or not.
        tokenizer: A frozen tokenizer. `vlm-flow` takes only the shape of chunks from it.
        spec: What is observed; its tasks are those of training, any other text is read too.
        actions: Raw to normalized actions, for the flow expert.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how the policy was trained.
        execution: How many steps of a chunk are worth executing; None until that is calibrated.

    Attributes:
        head: What predicts chunks, "flow" or "tokens". A co-trained policy has both and acts by its
            flow expert; set this to compare.
    """

    rows_at_once, tokens_suffice = 16, True

    def __init__(
        self,
        net: VlmNet,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        actions: Normalizer,
        auto: AutoThresholds | None = None,
        extras: dict[str, Any] | None = None,
        execution: AutoExecution | None = None,
    ) -> None:
        self.net, self.tokenizer = net, tokenizer
        self.spec, self.actions = spec, actions
        self.auto, self.execution = auto, execution
        self.extras = extras or {}
        self.head: Head = net.config.heads[0]
        processor = net.backbone.processor
        resized = partial(resized_reading, spec, processor)
        self.episode = EpisodeReader(VlmReader(spec, processor).read, spec.history, resized)
        self.token_predictor = TokenPredictor(net, tokenizer, self.schedule, spec, self.episode)
        self.flow_predictor = FlowPredictor(net, actions, spec, self.episode, tokenizer.horizon)

    @classmethod
    def make(
        cls,
        config: VlmConfig,
        backbone: Backbone,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        actions: Normalizer,
    ) -> VlmPolicy:
        """An untrained policy on a backbone, whose vocabulary grows by the action tokens."""
        require_endpoints(config.endpoints, tokenizer)
        net = VlmNet(config, backbone, spec, tokenizer)
        if net.tokens is not None:
            backbone.processor.add_action_tokens(
                tokenizer.vocab_size, has_end=not tokenizer.is_fixed_length
            )
        return cls(net.eval(), tokenizer, spec, actions)

    @classmethod
    def for_dataset(
        cls,
        config: VlmConfig,
        backbone: str,
        tokenizer: ActionTokenizer,
        dataset: Dataset,
        *,
        net: VlmNet | None = None,
        **observes: Any,
    ) -> VlmPolicy:
        """An untrained policy for a dataset, on a backbone (folder or hub id), around the network
        of another robot's if one is given; `observes` is for `ObservationSpec.for_dataset`."""
        from oatkit.policies.vlm.backbones.loading import load_backbone

        require_same_actions(tokenizer, dataset)
        spec = ObservationSpec.for_dataset(dataset, **{"history": 1, **observes})
        statistics, transform = dataset.action_statistics(), tokenizer.normalizer.transform
        actions = fit_action_normalizer(
            dataset, statistics, "min_max", transform, tokenizer.horizon
        )
        if net is not None:
            return cls(net, tokenizer, spec, actions, extras={UNTRAINED: True})
        loaded = load_backbone(backbone, config.backbone)
        policy = cls.make(config, loaded, tokenizer, spec, actions)
        policy.extras[UNTRAINED] = True
        return policy

    @property
    def kind(self) -> str:
        return self.net.config.objective

    @property
    def heads(self) -> tuple[Head, ...]:
        """What was trained."""
        return self.net.config.heads

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets at which a policy is measured: tokens, or Euler steps of its flow expert."""
        if self.head == "tokens":
            return self.tokenizer.budgets
        return step_choices(self.net.config.expert.num_steps)

    @property
    def schedule(self) -> Schedule:
        """Blocks in which the policy was trained to generate; co-training is token by token."""
        endpoints = self.net.config.endpoints
        if endpoints is not None:
            return Schedule(endpoints)
        if self.net.config.is_cotrained:
            return Schedule.tokenwise(self.tokenizer.max_tokens)
        return self.tokenizer.schedule

    @property
    def device(self) -> torch.device:
        return self.net.device

    @property
    def digest(self) -> str:
        """Hash of weights, network config and tokenizer, which changes when any of them does."""
        return policy_digest(self)

    def to(self, device: torch.device | str) -> VlmPolicy:
        """Move network and tokenizer to a device; returns itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        return self

    def with_tasks(self, tasks: Sequence[str]) -> VlmPolicy:
        """The same policy; further tasks are only listed, because it reads any text."""
        spec = self.spec.with_more_tasks(tasks)
        parts = (self.net, self.tokenizer, spec, self.actions)
        return VlmPolicy(*parts, self.auto, self.extras, self.execution)

    def with_config(self, config: VlmConfig) -> VlmPolicy:
        """The same policy under another config, to train it further: with another objective, or
        with other parts trained. A head that it does not have yet is new."""
        config = keep_precision(self.net.config, config)
        require_successor(self.net.config, config)
        train_parts(self.net.backbone, config.backbone)
        net = VlmNet(config, self.net.backbone, self.spec, self.tokenizer)
        wanted = net.state_dict()
        kept = {name: tensor for name, tensor in self.net.state_dict().items() if name in wanted}
        net.load_state_dict(kept, strict=False)
        auto = self.auto if "tokens" in config.heads else None
        execution = self.execution if config.heads[0] == self.heads[0] else None
        parts = (net.eval(), self.tokenizer, self.spec, self.actions)
        return VlmPolicy(*parts, auto, self.extras, execution)

    def merge_adapters(self) -> None:
        """Add what adapters (LoRA) learned to the weights: a float32 policy without adapters."""
        config = self.net.config
        merged = merge_adapters(self.net.backbone, config.backbone)
        self.net.config = replace(config, backbone=merged)

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        family = self.net.backbone.family.name
        return f"VlmPolicy({self.kind} on {family}, {count:,} parameters, {self.tokenizer})"

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss on raw actions."""
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
        how = (self.schedule, random, self._masked(is_pad_BT), weight_BA)
        return self.net.loss(observations, tokens, actions_BTA, *how)

    def flow_loss(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        context: Any = None,
    ) -> Tensor:
        """The flow part of the loss on raw actions, a scalar; images stay as they are."""
        if context is None:
            context = self.net.encode(observations)
        normal = normalized_actions(self.actions, self.spec, observations, actions_BTA, is_pad_BT)
        return self.net.flow_loss(context, normal[0], random, self._masked(normal[1]))

    def _masked(self, is_pad_BT: Tensor | None) -> Tensor | None:
        """Padding that the flow loss leaves out; None if it counts."""
        return is_pad_BT if self.net.config.mask_padding else None

    def logits(self, observations: Observations, ids_BK: Tensor, schedule: Schedule) -> Tensor:
        """Logits of a packed pass over true tokens, (B, K, V)."""
        return self.net.logits(ids_BK, schedule, self.net.encode(observations))

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

    @property
    def _predictor(self) -> TokenPredictor | FlowPredictor:
        return self.token_predictor if self.head == "tokens" else self.flow_predictor

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
        """Generate tokens or integrate the flow; see `Policy.predict_action_chunk`."""
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} policy", "train_policy")
        calibrated = (self.auto, self.execution)
        options = PredictionOptions(
            budget, schedule, sampling, generator, deadline_ms, *calibrated, draws, committed
        )
        return self._predictor.predict(observation, options)

    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """Predict once, without retrying; used for measuring."""
        return self._predictor.generate_once(observations, generator, thresholds, sampling)

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find thresholds and how much to execute; see `Policy.calibrate`."""
        if "tokens" in self.heads:
            self.extras.pop("auto", None)  # thresholds of an earlier rule
            self.auto = self.token_predictor.calibrate(
                observations, actions_BTA, generator, self.rows_at_once
            )
        self.execution = calibrate_execution(self, observations, actions_BTA, generator)

    # The artifact

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "kind": self.kind,
            "net": self.net.config.to_json(),
            "vocab_size": self.tokenizer.vocab_size,
            "observation": self.spec.to_json(),
            "actions": self.actions.to_json(),
            "auto": None if self.auto is None else asdict(self.auto),
            "execution": None if self.execution is None else self.execution.to_json(),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact; it holds the weights of the backbone too."""
        return write_policy(folder, self, *self.written())

    def written(self) -> tuple[dict[str, Any], str, Callable[[Path], None]]:
        """Settings, model card, and the files of the backbone; see `SharingPolicy`."""
        config = self.to_json() | {"tokenizer_digest": self.tokenizer.digest}
        save = self.net.backbone.processor.save_pretrained
        return config, self._card(), lambda to: save(to / "backbone")

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
        net: VlmNet | None = None,
    ) -> VlmPolicy:
        """Read an artifact; see `load_policy`."""
        from oatkit.policies.vlm.backbones.loading import build_backbone

        found = read_policy(folder, OWN_KEYS, has_weights=net is None)
        tokenizer, values = found.tokenizer.to(device), found.config
        require_trained_tokenizer(found.path, tokenizer, values)
        if net is None:
            config = VlmConfig.from_json(values["net"])
            with WithoutWeights():
                backbone = build_backbone(found.shared / "backbone", config.backbone)
                net = VlmNet(config, backbone, found.spec, tokenizer)
            load_weights(net, found, dtype, device, float32=("state",))
        actions = Normalizer.from_json(values["actions"])
        parts = (net.eval(), tokenizer, found.spec, actions)
        return cls(*parts, found.auto, found.extras, found.execution)

    def _card(self) -> str:
        family = self.net.backbone.family.name
        return model_card(
            f"{self.kind} policy on {family}, {self.tokenizer.kind} tokens",
            f"{self.spec.describe()} and an instruction; {self.spec.history} frames",
            self.tokenizer,
            tags="robotics, action-policy, vision-language-action",
            call="observation",
        )
