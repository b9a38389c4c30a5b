"""A mixture of datasets in, one policy for all of their robots out.

    policies = train_mixture_policy(open_mixture(["a", "b"]), "out/mixed", "light", "out/policy")
    policies["a"].predict_action_chunk(observation)

`oatkit policy train --data a=0.7,b=0.3` calls this. Robots may differ in action dimensions, state,
rate and cameras. The network is shared; each robot has an ordinary policy around it.

Shape letters: B chunk, K token slot, T step in the chunk, A action dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.data.mixture import NUM_PLACES, Mixture
from oatkit.jobs.mixture_policies import Cameras, new_policies, open_tokenizers
from oatkit.jobs.policy_batches import PolicyBatches
from oatkit.jobs.policy_training import (
    MAX_CHUNKS_TO_EVALUATE,
    check_recipe,
    policy_data,
)
from oatkit.jobs.token_cache import cached_tokens
from oatkit.jobs.tokenizer_training import DEFAULT_HORIZON
from oatkit.jobs.untrained_policy import Folder, PolicyStart, policy_config, policy_recipe
from oatkit.jobs.working_folder import working_folder
from oatkit.measure.held_out_losses import losses_to_log
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies import LightConfig, Policy
from oatkit.policies.normalized_actions import normalized_actions
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import CALIBRATED_KEYS, write_policies
from oatkit.policies.policy_model import PolicyConfig
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.storage.artifact import change_config
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import to_shape
from oatkit.train import TrainConfig, load_latest, resolve_config
from oatkit.train import train as run_training
from oatkit.train.precision import with_precision
from oatkit.train.shard import is_sharding_asked
from oatkit.train.training_job import Spread
from oatkit.types import Tokens


def train_mixture_policy(
    mixture: Mixture,
    tokenizers: Mapping[str, ActionTokenizer | Folder] | Folder | None = None,
    config: PolicyConfig | str = "light",
    out: Folder | None = None,
    *,
    backbone: str | None = None,
    preset: str = "small",
    cameras: Cameras = (),
    reads_state: bool = True,
    history: int | None = None,
    horizon: int = DEFAULT_HORIZON,
    train: TrainConfig | Mapping[str, Any] | None = None,
    held_out: float | None = None,
    split_seed: int | None = None,
    allow_drift: bool = False,
    merge_lora: bool = False,
    device: Device = "auto",
    show_progress: bool = False,
) -> dict[str, Policy]:
    """Train one policy on several robots; gives a policy for each, around one network.

    Args:
        mixture: Demonstrations of the robots.
        tokenizers: Their tokenizers, all of one codec: by name, or the folder that
            `train_mixture_tokenizer` wrote; None for a policy without tokens.
        config: Name of a policy, such as "vlm-tc", or a config of one.
        out: Folder for the artifact, log and checkpoints; a stopped run continues there.
        backbone: Vision-language checkpoint: folder or hub id.
        preset: Size and training recipe.
        cameras: Names of cameras, of which each robot reads those that it has, in this order; or
            the cameras of each robot by its name.
        reads_state: Whether to read the state of those that have one.
        history: Number of observed frames, the current one included; the preset's by default.
        horizon: Number of actions in a chunk, where no tokenizer says it.
        train: How it is trained: a whole `TrainConfig`, or settings that differ from the preset's.
        held_out: Share of the episodes of each dataset that is never trained on; the tokenizers'
            by default.
        split_seed: Seed of which episodes those are; the tokenizers' by default.
        allow_drift: Whether actions may differ from those that the tokenizers were trained on.
        merge_lora: Whether adapters become part of the weights when training ends.
        device: Where it is trained.
        show_progress: Whether to print what happens and to show a bar.
    """
    sizes = (backbone, (), reads_state, history, horizon, held_out, split_seed)
    start = PolicyStart(*sizes)
    made = policy_config(config, preset) if isinstance(config, str) else config
    console = Console(highlight=False, quiet=not show_progress)
    if isinstance(made, LightConfig) and made.offset_layers:
        made = replace(made, offset_layers=0)
        console.print("note: chunks of several robots have several shapes: there is no offset head")
    opened = open_tokenizers(tokenizers, made, mixture, start)
    split = start.split(next(iter(opened.values())).extras)
    train_set, held_out_set = mixture.split(split["fraction"], seed=split["seed"])
    recipe = resolve_config(train, policy_recipe(made.kind, preset))
    make = partial(new_policies, made, opened, train_set, start, cameras, preset, recipe.seed)
    training = MixturePolicyTraining(make(), make, train_set, held_out_set, split, recipe)
    check_recipe(next(iter(training.policies.values())), recipe, merge_lora)
    training.check_drift(allow_drift)
    return training.run(out, backbone, merge_lora, device, console)


@dataclass(frozen=True)
class MixturePolicyTraining:
    """Policies around one network that is not yet trained, their episodes and their recipe.

    Attributes:
        policies: Policy of each robot.
        make: Function that makes the same untrained policies again.
        train_set: Episodes to train on.
        held_out_set: Episodes that are never trained on.
        split: Arguments of `Mixture.split` that gave both.
        config: How it is trained.
    """

    policies: dict[str, Policy]
    make: Callable[[], dict[str, Policy]]
    train_set: Mixture
    held_out_set: Mixture
    split: Mapping[str, Any]
    config: TrainConfig

    def check_drift(self, is_allowed: bool) -> None:
        """Refuse actions that differ from those of the tokenizers."""
        for name, policy in self.policies.items():
            differences = policy.tokenizer.check(self.train_set[name])
            if differences and not is_allowed:
                raise ValueError(
                    f"the data of {name!r} are not what its tokenizer was fitted on "
                    f"({differences[0]}): train the tokenizer on this data, or go on with "
                    "--allow-drift (allow_drift=True)"
                )

    def run(
        self,
        out: Folder | None,
        backbone: str | None,
        merge_lora: bool,
        device: Device,
        console: Console,
    ) -> dict[str, Policy]:
        """Train, write the artifact, then calibrate each robot's policy on its held-out episodes.

        Args:
            out: Folder for artifact, log and checkpoints.
            backbone: What the network was made of.
            merge_lora: Whether adapters become part of the weights when training ends.
            device: Where it is trained.
            console: Where to say what happens.
        """
        policies = self.policies
        first = next(iter(policies.values()))
        job = MixturePolicyJob(policies, self.train_set, self.held_out_set)
        config = with_precision(self.config, job.module, resolve_device(device))
        what = f" on {first.tokenizer.kind}" if "tokens" in first.heads else ""
        robots = ", ".join(policies)
        console.print(f"training {first.kind}{what} on {robots}: {config.steps:,} steps")
        with working_folder(out) as folder:
            how: dict[str, Any] = {"device": device, "show_progress": not console.quiet}
            if not run_training(job, config, folder, identity=self._identity(backbone), **how):
                return policies
            trained_on = first.device
            if is_sharding_asked():
                policies = self.make()
                first = next(iter(policies.values()))
                load_latest(folder, first.net)
        if merge_lora and isinstance(first.model, VlmModel):
            first.model.merge_adapters()
        for name, policy in policies.items():
            policy.extras = self._extras(name, config)
        if out is not None:
            write_policies(out, policies)
        for name, policy in policies.items():
            policy.to(trained_on)
            held_out = job.held_out[name]
            generator = torch.Generator().manual_seed(self.config.seed)
            policy.calibrate(held_out.observations, held_out.actions, generator)
            policy.to("cpu")
            if out is not None:
                found = policy.to_json()
                change_config(Path(out) / name, {key: found[key] for key in CALIBRATED_KEYS})
        return policies

    def _identity(self, backbone: str | None) -> dict[str, Any]:
        """What is trained on what; a checkpoint of something else is refused."""
        first = next(iter(self.policies.values()))
        return {
            "backbone": backbone,
            "kind": first.kind,
            "net": first.to_json()["net"],
            "shares": self.train_set.shares.tolist(),
            "embodiments": {
                name: {
                    "observation": policy.spec.to_json(),
                    "tokenizer": policy.tokenizer.digest,
                    "data": self.train_set[name].fingerprint,
                }
                for name, policy in self.policies.items()
            },
        }

    def _extras(self, name: str, config: TrainConfig) -> dict[str, Any]:
        shares = dict(zip(self.train_set.names, self.train_set.shares.tolist(), strict=True))
        return {
            "split": {"held_out": self.split["fraction"], "seed": self.split["seed"]},
            "train": asdict(config),
            "data": policy_data(self.train_set[name]),
            "mixture": {"embodiment": name, "shares": shares},
        }


class MemberBatches:
    """Reads chunks of one robot in the network's shape; worker processes get it without the policy.

    Args:
        policy: Policy of the robot.
        dataset: Episodes to train on.
    """

    def __init__(self, policy: Policy, train_set: Any) -> None:
        spec, tokenizer = policy.spec, policy.tokenizer
        assert spec.embodiment is not None
        tokens = cached_tokens(tokenizer, train_set) if "tokens" in policy.heads else None
        how: dict[str, Any] = {"history": spec.history, "cameras": tuple(spec.cameras)}
        chunks = train_set.chunks(tokenizer.horizon, **how)
        self.num_chunks = len(chunks)
        self._read = PolicyBatches(chunks, tokens, policy.episode.read)
        self._spec, self._actions, self._shape = spec, policy.actions, spec.embodiment.chunk_shape

    def __call__(self, indices: NDArray[np.int64]) -> tuple[Tokens, Observations, list[Tensor]]:
        """Tokens and observations; normalized actions (B, T, A) with padding, which steps (B, T)
        are past the end of an episode, and the weight (B, A) of the dimensions, 0 for padding."""
        ids_BK, lengths_B, raw_BTA, is_pad_BT, *tensors = self._read(indices)
        observations = Observations.from_tensors(tensors)
        normal_BTA, is_pad = normalized_actions(
            self._actions, self._spec, observations, raw_BTA, is_pad_BT
        )
        dim, width = normal_BTA.shape[-1], self._shape[1]
        weight_BA = torch.zeros(len(ids_BK), width)
        weight_BA[:, :dim] = width / dim  # so that all robots weigh alike
        assert is_pad is not None
        found = [to_shape(normal_BTA, self._shape), is_pad, weight_BA]
        return Tokens(ids_BK, lengths_B), observations, found


class MixturePolicyBatches:
    """Reads batches of chunks of all robots, by the places of the mixture.

    Args:
        mixture: Episodes to train on.
        members: Reads the chunks of each robot, in the mixture's order.
    """

    def __init__(self, mixture: Mixture, members: list[MemberBatches]) -> None:
        self._mixture = mixture
        self._members = members

    def __call__(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Ids, lengths, actions, padding and weights of chunks, and the tensors of observations."""
        num_chunks = [member.num_chunks for member in self._members]
        member_B, chunk_B = self._mixture.locate(indices, num_chunks)
        rows, parts = [], []
        for number, read in enumerate(self._members):
            (own,) = np.nonzero(member_B == number)
            if len(own):
                rows.append(own)
                parts.append(read(chunk_B[own]))
        tokens, observations, others = zip(*parts, strict=True)
        most = max(one.ids.shape[1] for one in tokens)
        joined = [
            torch.cat([F.pad(one.ids, (0, most - one.ids.shape[1])) for one in tokens]),
            torch.cat([one.lengths for one in tokens]),
            *(torch.cat(same) for same in zip(*others, strict=True)),
            *Observations.cat(observations).tensors(),
        ]
        order = torch.from_numpy(np.argsort(np.concatenate(rows)))
        return tuple(tensor[order] for tensor in joined)


@dataclass(frozen=True)
class HeldOut:
    """Held-out chunks of a robot.

    Attributes:
        observations: What was observed.
        tokens: Tokens of what followed.
        actions: The chunks (B, T, A) that followed, raw units.
        is_pad: Which of their steps (B, T) are past the end of an episode.
    """

    observations: Observations
    tokens: Tokens
    actions: Tensor
    is_pad: NDArray[np.bool_]


class MixturePolicyJob:
    """Training a network on the chunks of several robots.

    Args:
        policies: Policy of each robot, all around one network.
        train_set: Episodes to train on.
        held_out_set: Episodes that are never trained on.
    """

    def __init__(
        self, policies: Mapping[str, Policy], train_set: Mixture, held_out_set: Mixture
    ) -> None:
        self._policies = policies
        self._first = next(iter(policies.values()))
        self.module: nn.Module = self._first.net
        members = [MemberBatches(policies[m.name], m.dataset) for m in train_set.members]
        self.batch = MixturePolicyBatches(train_set, members)
        self.num_samples = NUM_PLACES
        self.held_out = {
            name: self._to_measure(policy, held_out_set[name]) for name, policy in policies.items()
        }

    def _to_measure(self, policy: Policy, dataset: Any) -> HeldOut:
        observations, actions_BTA, is_pad_BT = observations_to_measure(
            policy, dataset, MAX_CHUNKS_TO_EVALUATE
        )
        tokens = policy.tokenizer.encode(actions_BTA, policy.spec.start_state(observations))
        return HeldOut(observations, tokens, actions_BTA, is_pad_BT)

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        """The policy's own loss, of real dimensions."""
        ids_BK, lengths_B, actions_BTA, is_pad_BT, weight_BA, *tensors = batch
        tokens, observations = Tokens(ids_BK, lengths_B), Observations.from_tensors(tensors)
        return self._first.normalized_loss(
            observations, tokens, actions_BTA, random, is_pad_BT, weight_BA
        )

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """Nothing follows a step of a policy."""

    def evaluate(self, spread: Spread) -> dict[str, float]:
        """Loss and token accuracy, and the flow loss, on held-out chunks of each robot."""
        found: dict[str, float] = {}
        for name, policy in self._policies.items():
            own = self.held_out[name]
            chunks = (own.observations, own.tokens, own.actions, own.is_pad)
            measured = losses_to_log(policy, *chunks, spread)
            found |= {f"{name} {key}": value for key, value in measured.items()}
        return found
