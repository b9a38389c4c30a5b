"""`vlm-ar`, `vlm-tc` and `vlm-flow`: what vision-language policies bring; the network is in
`vlm_net`.

config.json  model.safetensors  README.md   as in every artifact; weights of the backbone too
tokenizer/                                  tokenizer of the actions
backbone/                                   config, tokenizer and image processor of the backbone

Shape letters: B batch, T step in the chunk, A action dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from oatkit.data import Dataset, Normalizer
from oatkit.data.action_normalizer import fit_action_normalizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import OpenedPolicy
from oatkit.policies.policy_card import PolicyCard
from oatkit.policies.tokenizer_checks import require_endpoints, require_trained_tokenizer
from oatkit.policies.vlm.backbones.adapter_merging import merge_adapters
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.trained_parts import train_parts
from oatkit.policies.vlm.vlm_config import VlmConfig, keep_precision, require_successor
from oatkit.policies.vlm.vlm_net import VlmNet
from oatkit.policies.vlm.vlm_reader import VlmReader, resized_reading
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Head, Schedule, Tokens


class VlmModel:
    """The network with its tokenizer and what it observes: a `PolicyModel`.

    Args:
        net: The network, trained or not.
        tokenizer: A frozen tokenizer. `vlm-flow` takes only the shape of chunks from it.
        spec: What is observed; its tasks are those of training, any other text is read too.
        actions: Raw to normalized actions, for the flow expert.
    """

    rows_at_once, correct = 16, None

    def __init__(
        self, net: VlmNet, tokenizer: ActionTokenizer, spec: ObservationSpec, actions: Normalizer
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec
        self.actions = actions

    @classmethod
    def make(
        cls,
        config: VlmConfig,
        backbone: Backbone,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        actions: Normalizer,
    ) -> VlmModel:
        """An untrained model on a backbone, whose vocabulary grows by the action tokens."""
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
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        net: VlmNet | None = None,
        *,
        backbone: str,
        dataset: Dataset,
    ) -> VlmModel:
        """An untrained model for the actions of a dataset, on a backbone (folder or hub id), or
        around the network of another robot's."""
        from oatkit.policies.vlm.backbones.loading import load_backbone

        statistics, transform = dataset.action_statistics(), tokenizer.normalizer.transform
        actions = fit_action_normalizer(
            dataset, statistics, "min_max", transform, tokenizer.horizon
        )
        if net is not None:
            return cls(net, tokenizer, spec, actions)
        loaded = load_backbone(backbone, config.backbone)
        return cls.make(config, loaded, tokenizer, spec, actions)

    @classmethod
    def read(cls, found: OpenedPolicy, net: VlmNet | None = None) -> VlmModel:
        """The model of an artifact, whose weights are yet to be loaded."""
        from oatkit.policies.vlm.backbones.loading import build_backbone

        tokenizer, values = found.tokenizer, found.config
        require_trained_tokenizer(found.path, tokenizer, values)
        if net is None:
            config = VlmConfig.from_json(values["net"])
            backbone = build_backbone(found.shared / "backbone", config.backbone)
            net = VlmNet(config, backbone, found.spec, tokenizer)
        return cls(net.eval(), tokenizer, found.spec, Normalizer.from_json(values["actions"]))

    @property
    def kind(self) -> str:
        return self.net.config.objective

    @property
    def heads(self) -> tuple[Head, ...]:
        """What is trained. A co-trained policy has both heads and acts by its flow expert."""
        return self.net.config.heads

    @property
    def schedule(self) -> Schedule:
        """Blocks in which tokens are generated; co-training is token by token."""
        endpoints = self.net.config.endpoints
        if endpoints is not None:
            return Schedule(endpoints)
        if self.net.config.is_cotrained:
            return Schedule.tokenwise(self.tokenizer.max_tokens)
        return self.tokenizer.schedule

    def episode_reader(self) -> EpisodeReader:
        """Reads states, images and text as the backbone takes them; see `PolicyModel`."""
        spec, processor = self.spec, self.net.backbone.processor
        resized = partial(resized_reading, spec, processor)
        return EpisodeReader(VlmReader(spec, processor).read, spec.history, resized)

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of tokens, of a flow, or of both; see `PolicyModel`."""
        assert random is not None
        how = (self.schedule, random, masked_BT, weight_BA)
        return self.net.loss(observations, tokens, actions_BTA, *how)

    def with_tasks(self, tasks: Sequence[str]) -> VlmModel:
        """The same model; further tasks are only listed, because it reads any text."""
        return VlmModel(self.net, self.tokenizer, self.spec.with_more_tasks(tasks), self.actions)

    def with_config(self, config: VlmConfig) -> VlmModel:
        """The same model under another config, to train it further: with another objective, or with
        other parts trained. A head that it does not have yet is new."""
        config = keep_precision(self.net.config, config)
        require_successor(self.net.config, config)
        train_parts(self.net.backbone, config.backbone)
        net = VlmNet(config, self.net.backbone, self.spec, self.tokenizer)
        wanted = net.state_dict()
        kept = {name: tensor for name, tensor in self.net.state_dict().items() if name in wanted}
        net.load_state_dict(kept, strict=False)
        return VlmModel(net.eval(), self.tokenizer, self.spec, self.actions)

    def merge_adapters(self) -> None:
        """Add what adapters (LoRA) learned to the weights: a float32 model without adapters."""
        config = self.net.config
        merged = merge_adapters(self.net.backbone, config.backbone)
        self.net.config = replace(config, backbone=merged)

    def settings(self) -> dict[str, Any]:
        """The config of the network, which tokens it predicts, and how it normalizes actions."""
        return {
            "net": self.net.config.to_json(),
            "vocab_size": self.tokenizer.vocab_size,
            "tokenizer_digest": self.tokenizer.digest,
            "actions": self.actions.to_json(),
        }

    def card(self) -> PolicyCard:
        """What README.md says; see `PolicyModel`."""
        family = self.net.backbone.family.name
        return PolicyCard(
            f"{self.kind} policy on {family}, {self.tokenizer.kind} tokens",
            f"{self.spec.describe()} and an instruction; {self.spec.history} frames",
            tags=("robotics", "action-policy", "vision-language-action"),
        )

    def write_files(self, folder: Path) -> None:
        """Write what the backbone needs beside its weights; see `WritesFiles`."""
        self.net.backbone.processor.save_pretrained(folder / "backbone")
