"""`light`: the small policy as an artifact, and how it acts; the network is in `light_net`."""

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
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.prediction import PredictionOptions
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.generation.token_predictor import TokenPredictor
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.light.light_net import LightNet
from oatkit.policies.light.observation_encoder import load_for_more_tasks, resized_reading
from oatkit.policies.light.offset_loss import corrects_prefixes, offset_loss, tokens_to_correct
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
from oatkit.policies.tokenizer_checks import require_endpoints, require_same_actions
from oatkit.storage.artifact import UNTRAINED, upload, warn_of_random_weights
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import written_settings
from oatkit.types import Budget, Head, Prediction, Sampling, Schedule, Tokens


class LightPolicy:
    """The network with its tokenizer and what it observes: a `Policy`.

    Args:
        net: The network, trained or not.
        tokenizer: A frozen tokenizer.
        spec: What is observed.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how the policy was trained.
        execution: How many steps of a chunk are worth executing; None until that is calibrated.
    """

    kind = "light"
    heads: tuple[Head, ...] = ("tokens",)
    rows_at_once = 256

    def __init__(
        self,
        net: LightNet,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        auto: AutoThresholds | None = None,
        extras: dict[str, Any] | None = None,
        execution: AutoExecution | None = None,
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec
        self.auto = auto
        self.execution = execution
        self.extras = extras or {}
        self.head: Head = "tokens"
        read, resized = partial(read_observation, spec), partial(resized_reading, net.config, spec)
        self.episode = EpisodeReader(read, spec.history, resized)
        correct = None if net.offset is None else net.corrected
        parts = (net, tokenizer, self.schedule, spec, self.episode)
        self.token_predictor = TokenPredictor(*parts, correct)

    @classmethod
    def make(
        cls,
        config: LightConfig,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        net: LightNet | None = None,
    ) -> LightPolicy:
        """An untrained policy, or one around the network of another robot's."""
        require_endpoints(config.endpoints, tokenizer)
        net = net or LightNet(
            config,
            spec,
            vocab_size=tokenizer.vocab_size,
            num_tokens=tokenizer.max_tokens,
            has_end=not tokenizer.is_fixed_length,
            chunk_shape=(tokenizer.horizon, tokenizer.normalizer.dim),
            budgets=tokenizer.budgets if corrects_prefixes(tokenizer) else None,
            code_positions_VC=tokenizer.code_positions,
        )
        return cls(net.eval(), tokenizer, spec)

    @classmethod
    def for_dataset(
        cls,
        config: LightConfig,
        tokenizer: ActionTokenizer,
        dataset: Dataset,
        *,
        net: LightNet | None = None,
        **observes: Any,
    ) -> LightPolicy:
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
        """Budgets at which a policy is measured."""
        return self.tokenizer.budgets

    @property
    def schedule(self) -> Schedule:
        """Blocks in which the policy was trained to generate."""
        endpoints = self.net.config.endpoints
        return self.tokenizer.schedule if endpoints is None else Schedule(endpoints)

    @property
    def tokens_suffice(self) -> bool:
        """Whether there is no offset head, which corrects what the tokenizer makes of tokens."""
        return self.net.offset is None

    @property
    def device(self) -> torch.device:
        return self.net.device

    @property
    def digest(self) -> str:
        """Hash of weights, network config and tokenizer, which changes when any of them does."""
        return policy_digest(self)

    def to(self, device: torch.device | str) -> LightPolicy:
        """Move network and tokenizer to a device; returns itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        return self

    def with_tasks(self, tasks: Sequence[str]) -> LightPolicy:
        """The same policy with further tasks, whose embeddings are yet to be trained."""
        spec = self.spec.with_more_tasks(tasks)
        policy = self.make(self.net.config, self.tokenizer, spec)
        load_for_more_tasks(policy.net, self.net.state_dict())
        return policy

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        return f"LightPolicy({count:,} parameters, {self.tokenizer})"

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        is_pad_BT: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of tokens and, with an offset head, of the corrected chunks.

        Without random numbers nothing is dropped, and true tokens alone are corrected.
        """
        if self.net.offset is not None:
            actions_BTA, is_pad_BT = normalized_actions(
                self.tokenizer.normalizer, self.spec, observations, actions_BTA, is_pad_BT
            )
        return self.normalized_loss(observations, tokens, actions_BTA, random, is_pad_BT)

    def normalized_loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        is_pad_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss, of tokens alone where there are several robots; see
        `SharingPolicy`."""
        self.extras.pop(UNTRAINED, None)  # whoever trains it knows
        context = self.net.encode(observations, random)
        loss, logits_BKV = self.net.token_loss(context, tokens, self.schedule, random)
        parts = {"token_loss": loss}
        if self.net.offset is not None:
            if random is not None:
                tokens = tokens_to_correct(self.tokenizer, logits_BKV, tokens, random)
            self.tokenizer.to(self.device)
            chunks_BTA = self.tokenizer.decode_normalized(tokens)
            parts["offset_loss"] = offset_loss(
                self.net, context, chunks_BTA, tokens, actions_BTA, random
            )
            loss = loss + parts["offset_loss"]
        return TrainingLoss(loss, parts)

    def flow_loss(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        context: Any = None,
    ) -> Tensor:
        raise TypeError("the light policy has no flow expert")

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
        """Generate tokens and decode them; see `Policy.predict_action_chunk`."""
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} policy", "train_policy")
        calibrated = (self.auto, self.execution)
        options = PredictionOptions(
            budget, schedule, sampling, generator, deadline_ms, *calibrated, draws, committed
        )
        return self.token_predictor.predict(observation, options)

    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """Generate all tokens once, without retrying; used for measuring."""
        return self.token_predictor.generate_once(observations, generator, thresholds, sampling)

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find thresholds and how much to execute; see `Policy.calibrate`."""
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
            "net": written_settings(self.net.config),
            "observation": self.spec.to_json(),
            "auto": None if self.auto is None else asdict(self.auto),
            "execution": None if self.execution is None else self.execution.to_json(),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact: `config.json`, `model.safetensors`, `tokenizer/` and a model card."""
        return write_policy(folder, self, *self.written())

    def written(self) -> tuple[dict[str, Any], str, None]:
        """Settings and model card; see `SharingPolicy`."""
        return self.to_json(), self._card(), None

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
        net: LightNet | None = None,
    ) -> LightPolicy:
        """Read an artifact; see `load_policy`."""
        found = read_policy(folder, has_weights=net is None)
        sizes = dict(found.config["net"])
        sizes["endpoints"] = None if sizes["endpoints"] is None else tuple(sizes["endpoints"])
        with WithoutWeights():
            policy = cls.make(LightConfig(**sizes), found.tokenizer, found.spec, net)
        if net is None:
            load_weights(policy.net, found, dtype, device, float32=("state",))
        policy.tokenizer.to(device)
        policy.auto, policy.execution, policy.extras = found.auto, found.execution, found.extras
        return policy

    def _card(self) -> str:
        spec = self.spec
        return model_card(
            f"light policy on {self.tokenizer.kind} tokens",
            f"{spec.describe()}; {spec.history} frames; {len(spec.tasks)} tasks",
            self.tokenizer,
            tags="robotics, action-policy",
            call="observation, budget=4",
        )
