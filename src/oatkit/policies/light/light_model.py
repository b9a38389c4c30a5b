"""`light`: what the small policy brings; the network is in `light_net`.

Shape letters: B batch, T step in the chunk, A action dimension, K token slot, V symbol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from oatkit.data import Normalizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.token_generation import Correct
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.light.light_net import LightNet
from oatkit.policies.light.observation_encoder import light_reader, load_for_more_tasks
from oatkit.policies.light.offset_loss import corrects_prefixes, offset_loss, tokens_to_correct
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import OpenedPolicy
from oatkit.policies.policy_card import PolicyCard
from oatkit.policies.tokenizer_checks import require_endpoints
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import written_settings
from oatkit.types import Head, Schedule, Tokens


class LightModel:
    """The network with its tokenizer and what it observes: a `PolicyModel`.

    Args:
        net: The network, trained or not.
        tokenizer: A frozen tokenizer.
        spec: What is observed.
    """

    kind = "light"
    heads: tuple[Head, ...] = ("tokens",)
    rows_at_once = 256

    def __init__(self, net: LightNet, tokenizer: ActionTokenizer, spec: ObservationSpec) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec

    @classmethod
    def make(
        cls,
        config: LightConfig,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        net: LightNet | None = None,
    ) -> LightModel:
        """An untrained model, or one around the network of another robot's."""
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
    def read(cls, found: OpenedPolicy, net: LightNet | None = None) -> LightModel:
        """The model of an artifact, whose weights are yet to be loaded."""
        config = LightConfig.from_json(found.config["net"])
        return cls.make(config, found.tokenizer, found.spec, net)

    @property
    def actions(self) -> Normalizer:
        """Raw to normalized actions: the tokenizer's."""
        return self.tokenizer.normalizer

    @property
    def schedule(self) -> Schedule:
        """Blocks in which tokens are generated: the config's, or the tokenizer's own."""
        endpoints = self.net.config.endpoints
        return self.tokenizer.schedule if endpoints is None else Schedule(endpoints)

    @property
    def correct(self) -> Correct | None:
        """What the offset head does to decoded chunks; None where there is none."""
        return None if self.net.offset is None else self.net.corrected

    def episode_reader(self) -> EpisodeReader:
        """Reads states, images and the number of a task; see `PolicyModel`."""
        return light_reader(self.net.config, self.spec)

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        masked_BT: Tensor | None = None,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of tokens and, with an offset head, of the corrected chunks.

        Without random numbers nothing is dropped, and true tokens alone are corrected.
        """
        context = self.net.encode(observations, random)
        loss, logits_BKV = self.net.token_loss(context, tokens, self.schedule, random)
        parts = {"token_loss": loss}
        if self.net.offset is not None:
            if random is not None:
                tokens = tokens_to_correct(self.tokenizer, logits_BKV, tokens, random)
            self.tokenizer.to(self.net.device)
            chunks_BTA = self.tokenizer.decode_normalized(tokens)
            parts["offset_loss"] = offset_loss(
                self.net, context, chunks_BTA, tokens, actions_BTA, random
            )
            loss = loss + parts["offset_loss"]
        return TrainingLoss(loss, parts)

    def with_tasks(self, tasks: Sequence[str]) -> LightModel:
        """The same model with further tasks, whose embeddings are yet to be trained."""
        spec = self.spec.with_more_tasks(tasks)
        model = self.make(self.net.config, self.tokenizer, spec)
        load_for_more_tasks(model.net, self.net.state_dict())
        return model

    def settings(self) -> dict[str, Any]:
        """The config of the network; see `PolicyModel`."""
        return {"net": written_settings(self.net.config)}

    def card(self) -> PolicyCard:
        """What README.md says; see `PolicyModel`."""
        return PolicyCard(
            f"light policy on {self.tokenizer.kind} tokens",
            f"{self.spec.describe()}; {self.spec.history} frames; {len(self.spec.tasks)} tasks",
            call="observation, budget=4",
        )
