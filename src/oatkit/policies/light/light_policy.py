"""`light`: the small policy as an artifact, and how it acts; the network is in `light_net`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.nn.decoder_backend import Frozen, freeze
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.blockwise import Feed, Generators
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.prediction import Drawn, Prediction
from oatkit.policies.generation.token_acting import TokenActing
from oatkit.policies.light.light_net import Context, LightConfig, LightNet, cached_feed
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy import (
    BasePolicy,
    model_card,
    require_endpoints,
    require_same_actions,
)
from oatkit.policies.vlm.vlm_config import Head
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


class LightPolicy(BasePolicy):
    """The network with its tokenizer and all that reading observations takes: the artifact.

    Args:
        net: Trained or not.
        tokenizer: Frozen.
        spec: What is observed.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how it was trained.
    """

    net: LightNet
    rows_at_once = 256
    head: Head = "tokens"

    def __init__(
        self,
        net: LightNet,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        auto: AutoThresholds | None = None,
        extras: dict[str, Any] | None = None,
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec
        self.auto = auto
        self.extras = extras or {}
        self._frozen: Frozen | None = None
        self.history: FrameHistory[Observations] = FrameHistory(spec.history)
        self.acting = TokenActing(self)

    @classmethod
    def make(
        cls, config: LightConfig, tokenizer: ActionTokenizer, spec: ObservationSpec
    ) -> LightPolicy:
        """An untrained policy."""
        require_endpoints(config.endpoints, tokenizer)
        net = LightNet(
            config,
            spec,
            vocab_size=tokenizer.vocab_size,
            num_tokens=tokenizer.max_tokens,
            has_end=not tokenizer.is_fixed_length,
        )
        return cls(net.eval(), tokenizer, spec)

    @classmethod
    def for_dataset(
        cls,
        config: LightConfig,
        tokenizer: ActionTokenizer,
        dataset: Dataset,
        *,
        history: int = 2,
        cameras: Sequence[str] = (),
        reads_state: bool = True,
    ) -> LightPolicy:
        """An untrained policy that observes what `dataset` has."""
        require_same_actions(tokenizer, dataset)
        spec = ObservationSpec.for_dataset(
            dataset, history=history, cameras=cameras, reads_state=reads_state
        )
        return cls.make(config, tokenizer, spec)

    @property
    def kind(self) -> str:
        return "light"

    @property
    def heads(self) -> tuple[Head, ...]:
        """What was trained."""
        return ("tokens",)

    @property
    def budgets(self) -> tuple[int, ...]:
        """At which a policy is measured."""
        return self.tokenizer.budgets

    @property
    def schedule(self) -> Schedule:
        """What the policy was trained under."""
        endpoints = self.net.config.endpoints
        return self.tokenizer.schedule if endpoints is None else Schedule(endpoints)

    @property
    def device(self) -> torch.device:
        return self.net.slots.device

    def with_tasks(self, tasks: Sequence[str]) -> LightPolicy:
        """The same policy with further tasks, whose embeddings are yet to be trained."""
        spec = self.spec.with_more_tasks(tasks)
        policy = self.make(self.net.config, self.tokenizer, spec)
        state = self.net.state_dict()
        table = policy.net.task.weight.detach().clone()
        table[: len(state["task.weight"])] = state["task.weight"]
        policy.net.load_state_dict({**state, "task.weight": table})
        return policy

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        return f"LightPolicy({count:,} parameters, {self.tokenizer})"

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
    ) -> TrainingLoss:
        """The training loss; actions are there as their tokens."""
        return self.net.loss(observations, tokens, self.schedule, random)

    def flow_loss(
        self, observations: Observations, actions_BTA: Tensor, random: SampleRandom
    ) -> Tensor:
        raise TypeError("the light policy has no flow expert")

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
        return read_observation(self.spec, observation, allow_more=allow_more)

    def start(self, context: Context, batch_size: int, schedule: Schedule) -> Feed:
        """The network with an empty cache."""
        if self._frozen is None or not self._frozen.is_current:
            self._frozen = freeze(self.net.decoder)
        return cached_feed(self._frozen, context, batch_size, schedule)

    def rows(self, context: Context, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        return [(keys[rows_N], values[rows_N]) for keys, values in context]

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
        """Generate tokens and decode them; see `TokenActing.predict`."""
        return self.acting.predict(
            observation,
            budget=budget,
            schedule=schedule,
            sampling=sampling,
            generator=generator,
            deadline_ms=deadline_ms,
        )

    def draw_once(
        self,
        observations: Observations,
        generator: Generators = None,
        auto: AutoThresholds | None = None,
    ) -> tuple[Drawn, dict[int, str]]:
        """One draw of all tokens by the default settings; see `TokenActing.draw_once`."""
        return self.acting.draw_once(observations, generator, auto)

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find the thresholds of `budget="auto"` on held-out observations and their raw actions.

        Nothing happens where generation cannot stop early.
        """
        self.auto = self.acting.calibrated(observations, actions_BTA, generator)

    # The artifact

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "schema": "oatkit/policy",
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "net": asdict(self.net.config),
            "observation": self.spec.to_json(),
            "auto": None if self.auto is None else asdict(self.auto),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact: `config.json`, `model.safetensors`, `tokenizer/` and a model card."""
        path = Path(folder)
        with replacing(path) as aside:
            self.tokenizer.save_pretrained(aside / "tokenizer")
            write_artifact(aside, self.to_json(), self.net.state_dict(), self._card())
        return path

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> LightPolicy:
        """Read an artifact from a folder or, by its id, from the Hugging Face hub."""
        path = local_folder(folder)
        config, state = read_artifact(path, "policy", FORMAT_VERSION)
        sizes = dict(config["net"])
        sizes["endpoints"] = None if sizes["endpoints"] is None else tuple(sizes["endpoints"])
        spec = ObservationSpec.from_json(config["observation"])
        policy = cls.make(LightConfig(**sizes), load_tokenizer(path / "tokenizer"), spec)
        load_state(policy.net.load_state_dict, state, path)
        if config["auto"] is not None:
            policy.auto = AutoThresholds(**config["auto"])
        known = {"schema", "version", "kind", "net", "observation", "auto"}
        policy.extras = {k: v for k, v in config.items() if k not in known}
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
