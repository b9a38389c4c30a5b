"""`vlm-ar`, `vlm-tc` and `vlm-flow`: vision-language policies as artifacts, and how they act.

config.json  model.safetensors  README.md   as in every artifact
tokenizer/                                  of the actions
backbone/                                   config, tokenizer and image processor of the backbone
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oatkit.data import Dataset, Normalizer
from oatkit.errors import ArtifactError
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.blockwise import Feed, Generators
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.prediction import Drawn, Prediction
from oatkit.policies.generation.token_acting import TokenActing
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy import (
    BasePolicy,
    model_card,
    require_endpoints,
    require_same_actions,
)
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.flow_acting import FlowActing
from oatkit.policies.vlm.vlm_config import Head, VlmConfig
from oatkit.policies.vlm.vlm_net import VlmNet
from oatkit.policies.vlm.vlm_reader import VlmReader
from oatkit.storage.artifact import (
    load_state,
    local_folder,
    read_artifact,
    replacing,
    write_artifact,
)
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.types import Budget, Sampling, Schedule, Tokens

FORMAT_VERSION = 1
KNOWN = (
    *("schema", "version", "kind", "net", "vocab_size", "tokenizer_digest", "observation"),
    *("actions", "auto"),
)


class VlmPolicy(BasePolicy):
    """The network with its tokenizer and all that reading observations takes: the artifact.

    Args:
        net: Trained or not.
        tokenizer: Frozen. `vlm-flow` takes only the shape of chunks from it.
        spec: What is observed; its tasks are those of training, any other text is read too.
        actions: Raw to normalized actions, for the flow expert.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how it was trained.

    Attributes:
        head: What acts, "flow" or "tokens". A co-trained policy has both and acts by its flow
            expert; set this to compare.
    """

    net: VlmNet
    rows_at_once = 16

    def __init__(
        self,
        net: VlmNet,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        actions: Normalizer,
        auto: AutoThresholds | None = None,
        extras: dict[str, Any] | None = None,
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec
        self.actions = actions
        self.auto = auto
        self.extras = extras or {}
        self.head: Head = net.config.heads[0]
        self._reader = VlmReader(spec, net.backbone.processor)
        self.history: FrameHistory[Observations] = FrameHistory(spec.history)
        self.acting = TokenActing(self)
        self.flowing = FlowActing(self)

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
        history: int = 1,
        cameras: Sequence[str] = (),
        reads_state: bool = True,
    ) -> VlmPolicy:
        """An untrained policy on a backbone (folder or hub id) that observes what `dataset` has."""
        from oatkit.policies.vlm.backbones.loading import load_backbone

        require_same_actions(tokenizer, dataset)
        spec = ObservationSpec.for_dataset(
            dataset, history=history, cameras=cameras, reads_state=reads_state
        )
        actions = Normalizer.fit(dataset.action_statistics())
        loaded = load_backbone(backbone, config.backbone)
        return cls.make(config, loaded, tokenizer, spec, actions)

    @property
    def kind(self) -> str:
        return self.net.config.objective

    @property
    def heads(self) -> tuple[Head, ...]:
        """What was trained."""
        return self.net.config.heads

    @property
    def budgets(self) -> tuple[int, ...]:
        """At which a policy is measured; the flow expert has but one."""
        if self.head == "tokens":
            return self.tokenizer.budgets
        return (self.tokenizer.max_tokens,)

    @property
    def schedule(self) -> Schedule:
        """What the policy was trained under; co-training is token by token."""
        endpoints = self.net.config.endpoints
        if endpoints is not None:
            return Schedule(endpoints)
        if self.kind == "vlm-tc":
            return Schedule.tokenwise(self.tokenizer.max_tokens)
        return self.tokenizer.schedule

    @property
    def device(self) -> torch.device:
        return self.net.backbone.mean.device

    def with_tasks(self, tasks: Sequence[str]) -> VlmPolicy:
        """The same policy; further tasks are only noted, it reads any text."""
        spec = self.spec.with_more_tasks(tasks)
        return VlmPolicy(self.net, self.tokenizer, spec, self.actions, self.auto, self.extras)

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
    ) -> TrainingLoss:
        """The training loss on raw actions."""
        normal_BTA = self.actions.normalize(actions_BTA)
        return self.net.loss(observations, tokens, normal_BTA, self.schedule, random)

    def flow_loss(
        self, observations: Observations, actions_BTA: Tensor, random: SampleRandom
    ) -> Tensor:
        """The flow part of the loss on raw actions, a scalar."""
        context = self.net.encode(observations)
        return self.net.flow_loss(context, self.actions.normalize(actions_BTA), random)

    def logits(self, observations: Observations, ids_BK: Tensor, schedule: Schedule) -> Tensor:
        """Of a packed pass over true tokens, (B, K, V)."""
        return self.net.logits(ids_BK, schedule, self.net.encode(observations))

    # Acting

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; `predict_action_chunk` takes them as well.

        Args:
            observation: LeRobot's keys. One frame, or a batch with its history.
            allow_more: Whether parts that the policy does not read are ignored, as simulators give
                them; otherwise another camera is an error.
        """
        return self._reader.read(observation, allow_more=allow_more)

    def start(self, context: Context, batch_size: int, schedule: Schedule) -> Feed:
        """The network with an empty cache."""
        return self.net.start(context, schedule)

    def rows(self, context: Context, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        return context.rows(rows_N)

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        sampling: Sampling = Sampling(),
        generator: Generators = None,
        deadline_ms: float | None = None,
    ) -> Prediction:
        """Generate tokens and decode them, see `TokenActing.predict`, or integrate the flow.

        The flow expert always does all of its steps: it has no budgets, schedules or deadlines, and
        of `sampling` only the seed concerns it.
        """
        if self.head == "tokens":
            return self.acting.predict(
                observation,
                budget=budget,
                schedule=schedule,
                sampling=sampling,
                generator=generator,
                deadline_ms=deadline_ms,
            )
        if budget not in (None, self.schedule.num_tokens) or schedule is not None:
            raise ValueError(
                f"{self.kind} acts by its flow expert, which has neither budgets nor schedules"
            )
        if deadline_ms is not None:
            raise ValueError(f"{self.kind} acts by its flow expert, which cannot stop early")
        if generator is None and sampling.seed is not None:
            generator = torch.Generator().manual_seed(sampling.seed)
        return self.flowing.predict(observation, generator)

    def draw_once(
        self,
        observations: Observations,
        generator: Generators = None,
        auto: AutoThresholds | None = None,
    ) -> tuple[Drawn, dict[int, str]]:
        """One draw by the default settings, as policies are measured."""
        if self.head == "tokens":
            return self.acting.draw_once(observations, generator, auto)
        return self.flowing.draw_once(observations, generator), {}

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find the thresholds of `budget="auto"` on held-out observations and their raw actions.

        Nothing happens where there are no tokens or generation cannot stop early.
        """
        if "tokens" in self.heads:
            self.auto = self.acting.calibrated(observations, actions_BTA, generator)

    # The artifact

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "schema": "oatkit/policy",
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "net": asdict(self.net.config),
            "vocab_size": self.tokenizer.vocab_size,
            "observation": self.spec.to_json(),
            "actions": self.actions.to_json(),
            "auto": None if self.auto is None else asdict(self.auto),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact; it holds the weights of the backbone too."""
        path = Path(folder)
        config = self.to_json() | {"tokenizer_digest": self.tokenizer.digest}
        with replacing(path) as aside:
            self.tokenizer.save_pretrained(aside / "tokenizer")
            self.net.backbone.processor.save_pretrained(aside / "backbone")
            write_artifact(aside, config, self.net.state_dict(), self._card())
        return path

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> VlmPolicy:
        """Read an artifact from a folder or, by its id, from the Hugging Face hub."""
        from oatkit.policies.vlm.backbones.loading import build_backbone

        path = local_folder(folder)
        values, state = read_artifact(path, "policy", FORMAT_VERSION)
        tokenizer = load_tokenizer(path / "tokenizer")
        if tokenizer.vocab_size != values["vocab_size"]:
            raise ArtifactError(
                f"{path} was trained on {values['vocab_size']} action tokens, its tokenizer has "
                f"{tokenizer.vocab_size}: put the tokenizer of its training back"
            )
        if values.get("tokenizer_digest") not in (None, tokenizer.digest):
            raise ArtifactError(
                f"{path} was trained on other tokens than those of {tokenizer}: put the tokenizer "
                "of its training back"
            )
        config = VlmConfig.from_json(values["net"])
        spec = ObservationSpec.from_json(values["observation"])
        net = VlmNet(config, build_backbone(path / "backbone", config.backbone), spec, tokenizer)
        load_state(net.load_state_dict, state, path)
        return cls(
            net.eval(),
            tokenizer,
            spec,
            Normalizer.from_json(values["actions"]),
            None if values["auto"] is None else AutoThresholds(**values["auto"]),
            {k: v for k, v in values.items() if k not in KNOWN},
        )

    def _card(self) -> str:
        family = self.net.backbone.family.name
        return model_card(
            f"{self.kind} policy on {family}, {self.tokenizer.kind} tokens",
            f"{self.spec.describe()} and an instruction; {self.spec.history} frames",
            self.tokenizer,
            tags="robotics, action-policy, vision-language-action",
            call="observation",
        )
