"""`Policy`: observations to chunks, how it is trained and measured, and the artifact on disk.

Shape letters: B batch, T step in the chunk, A action dimension, K token slot, V symbol.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies.generation.auto_execution import AutoExecution, calibrate_execution
from oatkit.policies.generation.budget_limits import step_choices
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.flow_predictor import FlowPredictor
from oatkit.policies.generation.prediction import PredictionOptions
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.generation.token_predictor import TokenPredictor
from oatkit.policies.normalized_actions import normalized_actions
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import SCHEMA, VERSION
from oatkit.policies.policy_model import PolicyModel, WritesFiles
from oatkit.storage.artifact import (
    UNTRAINED,
    replacing,
    upload,
    warn_of_random_weights,
    write_artifact,
)
from oatkit.storage.digest import digest, settings_part, tensor_parts
from oatkit.types import Budget, Decoding, Head, Prediction, Sampling, Schedule, Tokens
from oatkit.types.execution import whole_number


class Policy:
    """A network with its tokenizer and what it observes: trained, measured, stored and served.

    Args:
        model: What the kind of the policy brings, trained or not.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how the policy was trained.
        execution: How many steps of a chunk are worth executing; None until that is calibrated.

    Attributes:
        kind: Name in the table of policies.
        heads: What was trained.
        head: What predicts chunks, one of `heads`, the first by default. A co-trained policy has
            both and acts by its flow expert; set this to compare.
        net: The network, a torch module.
        tokenizer: The frozen tokenizer.
        spec: What the policy observes.
        actions: Raw to normalized actions, as the network computes with them.
        schedule: Blocks in which the policy was trained to generate.
        rows_at_once: Number of observations that fit in memory together.
        episode: Reads observations; it holds nothing that is trained, so that processes which read
            data get it instead of the policy.
    """

    def __init__(
        self,
        model: PolicyModel,
        auto: AutoThresholds | None = None,
        extras: dict[str, Any] | None = None,
        execution: AutoExecution | None = None,
    ) -> None:
        self.model = model
        self.auto = auto
        self.execution = execution
        self.extras = extras or {}
        self.kind, self.heads = model.kind, model.heads
        self.head: Head = model.heads[0]
        self.net, self.tokenizer, self.spec = model.net, model.tokenizer, model.spec
        self.actions, self.schedule = model.actions, model.schedule
        self.rows_at_once = model.rows_at_once
        self.episode = model.episode_reader()
        self._token_predictor = self._flow_predictor = None
        if "tokens" in self.heads:
            parts = (self.net, self.tokenizer, self.schedule, self.spec, self.episode)
            self._token_predictor = TokenPredictor(*parts, model.correct)
        if "flow" in self.heads:
            self._flow_predictor = FlowPredictor(
                self.net, self.actions, self.spec, self.episode, self.tokenizer.horizon
            )

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        return f"Policy({self.kind}: {count:,} parameters, {self.tokenizer})"

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets at which a policy is measured: tokens, or Euler steps of a flow."""
        return self.tokenizer.budgets if self.head == "tokens" else step_choices(self.net.num_steps)

    @property
    def tokens_suffice(self) -> bool:
        """Whether the tokenizer alone makes the chunk of the tokens, without what was observed."""
        return "tokens" in self.heads and self.model.correct is None

    @property
    def device(self) -> torch.device:
        return self.net.device

    def to(self, device: torch.device | str) -> Policy:
        """Move network and tokenizer to a device; returns itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        return self

    def choose_head(self, head: Head | None) -> None:
        """Act by one of the heads; None leaves the one that acts already."""
        if head is None:
            return
        if head not in self.heads:
            raise ValueError(f"{self.kind} has no head {head!r}, only {list(self.heads)}")
        self.head = head

    def choose_decoder(self, head: Head | None, decoding: Decoding | None) -> Policy:
        """Act by a head and, on `fast`, decode strictly or not; None leaves either as it is.
        Returns itself."""
        self.choose_head(head)
        self.tokenizer.choose_decoding(decoding)
        return self

    def with_tasks(self, tasks: Sequence[str]) -> Policy:
        """The same policy with further tasks, which are yet to be trained."""
        return self.with_model(self.model.with_tasks(tasks))

    def with_model(self, model: PolicyModel) -> Policy:
        """The same policy around a successor of its model: what was calibrated stays as far as the
        heads do."""
        auto = self.auto if "tokens" in model.heads else None
        execution = self.execution if model.heads[0] == self.heads[0] else None
        return Policy(model, auto, self.extras, execution)

    # Acting

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; a ValueError names what is wrong with it.

        Args:
            observation: LeRobot's keys. One frame, or a batch with its history.
            allow_more: Whether parts that the policy does not read are ignored, as simulators give
                them; otherwise another camera is an error.
        """
        return self.episode.read(observation, allow_more=allow_more)

    def reset(self) -> None:
        """Start a new episode: forget past frames; the next frame fills the whole history."""
        self.episode.reset()

    def observe(self, observation: Mapping[str, Any] | Observations) -> None:
        """Add one frame to the history without predicting, at a step between two predictions."""
        self.episode.observe(observation)

    @property
    def token_predictor(self) -> TokenPredictor:
        """Predicts chunks by tokens."""
        if self._token_predictor is None:
            raise self._lacks("tokens")
        return self._token_predictor

    @property
    def flow_predictor(self) -> FlowPredictor:
        """Predicts chunks by a flow."""
        if self._flow_predictor is None:
            raise self._lacks("flow expert")
        return self._flow_predictor

    def _lacks(self, what: str) -> TypeError:
        return TypeError(f"the {self.kind} policy has no {what}")

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
        """Chunks that follow the observations.

        Args:
            observation: LeRobot's keys, or what `read` made of them. One frame, whose history the
                policy keeps since `reset` (see `observe`), or a batch with its history, of which
                nothing is kept.
            budget: Largest number of tokens; all by default. Inside a block the block is run whole.
                "auto" stops where the tokens so far are so certain that more would hardly better
                the chunk.
            schedule: Another schedule than the policy was trained under, which warns once.
            sampling: Rules by which ids are chosen. A sequence of `fast` that does not decode is
                generated again by `Sampling.for_redraw`.
            generator: One for the batch, or one or a seed for each row, instead of the seed of
                `sampling`.
            deadline_ms: Time after which the chunk must be there: generation stops at the last
                trained budget that fits, at the first at the latest.
            draws: Number of chunks for each observation, all in `Prediction.draws`. The first is as
                it would be alone; the others have random numbers of their own, and sample where
                `sampling` is greedy.
            committed: Actions that are executed before the chunk acts, (B, steps, action_dim), or
                (steps, action_dim) for every row, in raw units: the chunk is to begin with them, as
                near as its tokens come. None or no steps for nothing. It is for tokens whose
                prefixes decode (`oat`, `oat-pow2`, `klt`); others raise a ValueError.

        Where a flow expert acts, a budget is a number of Euler steps (there is no "auto"), a
        deadline chooses how many fit, the temperature scales the noise that it starts from (0 is
        no noise), and there are no schedules.
        """
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} policy", "train_policy")
        if type(draws) is not int or draws < 1:
            draws = whole_number("draws", draws, 1)
        calibrated = (self.auto, self.execution)
        options = PredictionOptions(
            budget, schedule, sampling, generator, deadline_ms, *calibrated, draws, committed
        )
        return self._predictor.predict(observation, options)

    # Training and measuring

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        actions_BTA: Tensor,
        random: SampleRandom | None,
        is_pad_BT: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of observations and what follows them, as tokens and as raw actions.

        Args:
            observations: Observations of the batch.
            tokens: Tokens of the chunks that follow.
            actions_BTA: The chunks, raw units.
            random: Random numbers of the samples; None, which `light` takes, drops and changes
                nothing.
            is_pad_BT: bool, steps past the end of an episode, which repeat its last action; None if
                there are none.
        """
        actions_BTA, is_pad_BT = normalized_actions(
            self.actions, self.spec, observations, actions_BTA, is_pad_BT
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
        """The training loss of a batch that may be of several robots; see `PolicyModel.loss`."""
        self.extras.pop(UNTRAINED, None)  # whoever trains it knows
        how = (random, self._masked(is_pad_BT), weight_BA)
        return self.model.loss(observations, tokens, actions_BTA, *how)

    def flow_loss(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        random: SampleRandom,
        is_pad_BT: Tensor | None = None,
        context: Any = None,
    ) -> Tensor:
        """The flow part of the loss on raw actions, a scalar; images stay as they are, and nothing
        is dropped.

        A context that the network has encoded of the observations already need not be so again.
        """
        if "flow" not in self.heads:
            raise self._lacks("flow expert")
        if context is None:
            context = self.net.encode(observations)
        actions_BTA, is_pad_BT = normalized_actions(
            self.actions, self.spec, observations, actions_BTA, is_pad_BT
        )
        return self.net.flow_loss(context, actions_BTA, random, self._masked(is_pad_BT))

    def _masked(self, is_pad_BT: Tensor | None) -> Tensor | None:
        """Padding that a flow leaves out of its loss; None if it counts."""
        return is_pad_BT if "flow" in self.heads and self.net.masks_padding else None

    def logits(self, observations: Observations, ids_BK: Tensor, schedule: Schedule) -> Tensor:
        """Logits of a packed pass over true tokens, (B, K, V)."""
        if "tokens" not in self.heads:
            raise self._lacks("tokens")
        return self.net.logits(ids_BK, schedule, self.net.encode(observations))

    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """Predict once with all tokens or Euler steps, without retrying; used for measuring."""
        return self._predictor.generate_once(observations, generator, thresholds, sampling)

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find the thresholds of `budget="auto"` and how many steps of a chunk are worth executing,
        on held-out observations and their raw actions.

        There are no thresholds where generation cannot stop early.
        """
        if "tokens" in self.heads:
            self.extras.pop("auto", None)  # thresholds of an earlier rule
            self.auto = self.token_predictor.calibrate(
                observations, actions_BTA, generator, self.rows_at_once
            )
        self.execution = calibrate_execution(self, observations, actions_BTA, generator)

    # The artifact

    @property
    def digest(self) -> str:
        """Hash of weights, network config and tokenizer, which changes when any of them does."""
        config = self.to_json()
        facts = {key: config[key] for key in ("net", "observation", "auto")}
        if self.execution is not None:  # policies from before it keep their digest
            facts["execution"] = config["execution"]
        return digest(
            self.tokenizer.digest.encode(),
            settings_part(facts),
            *tensor_parts(self.net.state_dict()),
        )

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "kind": self.kind,
            **self.model.settings(),
            "observation": self.spec.to_json(),
            "auto": None if self.auto is None else asdict(self.auto),
            "execution": None if self.execution is None else self.execution.to_json(),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact: `config.json`, `model.safetensors`, `tokenizer/`, a model card, and
        what else the kind needs."""
        path = Path(folder)
        with replacing(path) as aside:
            self.tokenizer.save_pretrained(aside / "tokenizer")
            self.write_files(aside)
            write_artifact(aside, self.to_json(), self.net.state_dict(), self.model_card())
        return path

    def model_card(self) -> str:
        """The artifact's README.md."""
        return self.model.card().text(self.tokenizer)

    def write_files(self, folder: Path) -> None:
        """Write what an artifact of this kind has beside what all have into its folder."""
        if isinstance(self.model, WritesFiles):
            self.model.write_files(folder)

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artifact to the Hugging Face hub; returns its address."""
        return upload(self.save_pretrained, repo_id, private=private)
