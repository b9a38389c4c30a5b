"""`light`: the small policy as an artefact, and how it acts; the network is in `light_net`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.nn.freeze import Frozen, freeze
from oatkit.nn.random import SampleRandom
from oatkit.policies.acting import TokenActing, Watcher
from oatkit.policies.auto import AutoThresholds
from oatkit.policies.bar import Feed, Generators
from oatkit.policies.light_net import Context, LightConfig, LightNet, cached_feed
from oatkit.policies.observation import Observations, ObservationSpec
from oatkit.policies.prediction import Budget, Drawn, Latency, Prediction
from oatkit.policies.vlm_config import Head
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.artefact import (
    load_state,
    local_folder,
    read_artefact,
    upload,
    write_artefact,
)
from oatkit.types import Schedule, Tokens

FORMAT_VERSION = 1


class LightPolicy:
    """The network with its tokenizer and all that reading observations takes: the artefact.

    Args:
        net: Trained or not.
        tokenizer: Frozen.
        spec: What is observed.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how it was trained.
    """

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
        self.watcher = Watcher(self.read, spec.history)
        self.acting = TokenActing(self)

    @classmethod
    def make(
        cls, config: LightConfig, tokenizer: ActionTokenizer, spec: ObservationSpec
    ) -> LightPolicy:
        """An untrained policy."""
        if config.endpoints is not None and config.endpoints[-1] != tokenizer.max_tokens:
            raise ValueError(
                f"the schedule ends at {config.endpoints[-1]} tokens, {tokenizer.kind} has "
                f"{tokenizer.max_tokens}"
            )
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
        if tokenizer.action_dim != dataset.action_dim:
            raise ValueError(
                f"the tokenizer is for {tokenizer.action_dim} action dimensions, {dataset.path} "
                f"has {dataset.action_dim}"
            )
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
        known = self.spec.tasks
        spec = replace(self.spec, tasks=(*known, *(t for t in tasks if t not in known)))
        policy = self.make(self.net.config, self.tokenizer, spec)
        state = self.net.state_dict()
        table = policy.net.task.weight.detach().clone()
        table[: len(state["task.weight"])] = state["task.weight"]
        policy.net.load_state_dict({**state, "task.weight": table})
        return policy

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        return f"LightPolicy({count:,} parameters, {self.tokenizer})"

    def to(self, device: torch.device | str) -> LightPolicy:
        """Move network and tokenizer to a device; gives itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        self.acting.latencies.clear()
        return self

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom,
    ) -> Tensor:
        """The training loss, a scalar; actions are there as their tokens."""
        return self.net.loss(observations, tokens, self.schedule, random)

    def flow_loss(
        self, observations: Observations, actions_BTA: Tensor, random: SampleRandom
    ) -> Tensor:
        raise TypeError("the light policy has no flow expert")

    def logits(self, observations: Observations, ids_BK: Tensor, schedule: Schedule) -> Tensor:
        """Of a packed pass over true tokens, (B, K, V)."""
        return self.net.logits(ids_BK, schedule, self.net.encode(observations))

    # Acting

    def read(self, observation: Mapping[str, Any]) -> tuple[Observations, bool]:
        """The tensors of an observation, and whether it was one frame."""
        return self.spec.read(observation)

    def start(self, context: Context, batch_size: int, schedule: Schedule) -> Feed:
        """The network with an empty cache."""
        if self._frozen is None or not self._frozen.is_current:
            self._frozen = freeze(self.net.decoder)
        return cached_feed(self._frozen, context, batch_size, schedule)

    def rows(self, context: Context, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        return [(keys[rows_N], values[rows_N]) for keys, values in context]

    def reset(self) -> None:
        """Forget the frames of the episode; the next one is repeated as its own history."""
        self.watcher.reset()

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Note one frame without predicting: call it at the steps between two predictions."""
        self.watcher.observe(observation)

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        temperature: float = 1.0,
        top_k: int | None = 10,
        generator: Generators = None,
        deadline_ms: float | None = None,
    ) -> Prediction:
        """Generate tokens and decode them; see `TokenActing.predict`."""
        return self.acting.predict(
            observation,
            budget=budget,
            schedule=schedule,
            temperature=temperature,
            top_k=top_k,
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

    def latency(self, batch_size: int = 1, schedule: Schedule | None = None) -> Latency:
        """How long each stage and decoding take here; measured when first asked for."""
        return self.acting.latency(batch_size, schedule)

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

    # The artefact

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
        """Write the artefact: `config.json`, `model.safetensors`, `tokenizer/` and a model card."""
        path = Path(folder)
        self.tokenizer.save_pretrained(path / "tokenizer")
        write_artefact(path, self.to_json(), self.net.state_dict(), self._card())
        return path

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> LightPolicy:
        """Read an artefact from a folder or, by its id, from the Hugging Face hub."""
        path = local_folder(folder)
        config, state = read_artefact(path, "policy", FORMAT_VERSION)
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

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artefact to the Hugging Face hub; gives its address."""
        return upload(self.save_pretrained, repo_id, private=private)

    def _card(self) -> str:
        spec = self.spec
        reads = [f"state of {spec.state_dim}"] if spec.state_dim else []
        reads += [f"camera `{name}`, {h} x {w}" for name, (h, w) in spec.cameras.items()]
        lines = [
            "---",
            "library_name: oatkit",
            "tags: [robotics, action-policy]",
            "---",
            f"# light policy on {self.tokenizer.kind} tokens",
            "",
            f"Observes {', '.join(reads)}; {spec.history} frames; {len(spec.tasks)} tasks. Gives "
            f"chunks of {self.tokenizer.horizon} x {self.tokenizer.action_dim} actions.",
            "",
            "```python",
            "import oatkit",
            'policy = oatkit.load_policy("this folder or hub id")',
            "policy.reset()",
            "chunk = policy.predict_action_chunk(observation, budget=4).chunk",
            "```",
        ]
        return "\n".join(lines) + "\n"
