"""`oatkit policy train`: a dataset and a tokenizer in, a self-contained policy artifact out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn
from tyro.conf import arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.train_options import changed
from oatkit.data import Dataset
from oatkit.jobs.step_planning import steps_within
from oatkit.jobs.token_cache import cached_tokens
from oatkit.measure.policy_metrics import measure_flow, measure_slots, observations_to_measure
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies import AnyPolicy, LightPolicy, VlmConfig, VlmPolicy, load_policy
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.presets import policy_preset, vlm_preset
from oatkit.tokenizers import ActionTokenizer, load_tokenizer, make_config
from oatkit.train import TrainConfig, load_latest, train
from oatkit.train.shard import is_sharding_asked
from oatkit.types import Tokens

MAX_CHUNKS_TO_EVALUATE = 512
OF_THE_POLICY = (
    *("policy", "backbone", "tokenizer", "cameras", "history", "horizon", "endpoints"),
    *("dropout", "flow_weight", "expert_width", "expert_layers"),
)
"""Options that a policy to start from has already."""


@dataclass(frozen=True)
class TrainPolicy:
    """Train a policy on a tokenizer's tokens: light, or on a vision-language backbone.

    Example:
        oatkit policy train --data out/metaworld --tokenizer out/oat-pow2 --out out/policy
        oatkit policy train --data out/metaworld --tokenizer out/oat-pow2 --policy vlm-ar
            --backbone Qwen/Qwen3-VL-2B-Instruct --cameras corner2 --out out/vlm
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Path
    """Where to write the artifact; a run that was stopped goes on from there."""
    tokenizer: Annotated[Path | None, arg(metavar="DIR")] = None
    """Tokenizer artifact; it is frozen and stored with the policy."""
    policy: Literal["light", "vlm-ar", "vlm-tc", "vlm-flow"] = "light"
    """Light; vision-language and autoregressive, co-trained with tokens, or pure flow."""
    backbone: Annotated[str | None, arg(metavar="ID_OR_DIR")] = None
    """Vision-language checkpoint: folder or hub id."""
    preset: Literal["tiny", "small", "served", "paper"] = "small"
    """Size and training recipe; served is small with one frame, for `oatkit serve`."""
    cameras: tuple[str, ...] = ()
    """Cameras to read; none by default."""
    state: Annotated[bool, arg(help_behavior_hint="(it is read by default)")] = True
    """Do not read the state."""
    history: int | None = None
    """Frames that are observed, the current one included; the preset's by default, which is 2, and
    1 of `served` and of vision-language policies."""
    horizon: int = 32
    """Steps of a chunk, where no tokenizer says it (`vlm-flow`)."""
    endpoints: tuple[int, ...] = ()
    """Generation schedule to train under; the tokenizer's own by default."""
    dropout: float | None = None
    """Share of each residual branch that training drops; the preset's by default."""
    held_out: float | None = None
    """Share of the episodes that is never trained on; the tokenizer's, else 0.1."""
    split_seed: int | None = None
    """Which episodes those are; the tokenizer's, else 0."""
    steps: int | None = None
    """Training steps; the preset's by default."""
    batch_size: int | None = None
    """Chunks a step; the preset's by default."""
    optimizer: Literal["adamw", "soap"] | None = None
    """The preset's by default; the learning rate should fit it."""
    learning_rate: float | None = None
    """The preset's by default."""
    ema: float | None = None
    """Decay of the moving average of the weights, 0 for none; the preset's by default."""
    precision: Literal["float32", "bfloat16"] | None = None
    """Of the computation; float32 by default."""
    accumulate: int | None = None
    """In how many parts a batch is computed."""
    workers: int | None = None
    """Processes that read and prepare batches ahead; the preset's by default."""
    seed: int = 0
    """Of the initial weights, the samples and everything random in training."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; the preset's by default."""
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Where else to log."""
    init: Annotated[Path | None, arg(metavar="DIR")] = None
    """Start from this policy; its tokenizer, cameras, history and normalizer are kept."""
    allow_drift: bool = False
    """Train even where the actions are not those that the tokenizer was fitted on."""
    flow_weight: float = 1.0
    """Of the flow loss beside the token loss (`vlm-tc`)."""
    expert_width: int | None = None
    """Of the flow expert; the preset's by default."""
    expert_layers: int | None = None
    """Of the flow expert; as many as the backbone has by default."""
    loading: Annotated[BackboneOptions, arg(name="")] = BackboneOptions()
    columns: Columns = DatasetOptions()


def train_policy(options: TrainPolicy, console: Console) -> AnyPolicy:
    """Train what the options say, calibrate its thresholds on held-out episodes, and save it."""
    dataset = options.columns.open(options.data)
    policy, split = _start(options, dataset)
    tokenizer = policy.tokenizer
    if policy.schedule != tokenizer.schedule and policy.kind in ("light", "vlm-ar"):
        console.print(
            f"note: {tokenizer.kind} is meant to be generated up to "
            f"{list(tokenizer.schedule.endpoints)} tokens stage by stage, the policy is trained on "
            f"{list(policy.schedule.endpoints)}",
            markup=False,
            soft_wrap=True,
        )
    train_set, held_out = dataset.split(**split)
    differences = tokenizer.check(train_set)
    if differences and not options.allow_drift:
        rest = f"; and {len(differences) - 1} more" if len(differences) > 1 else ""
        raise ValueError(
            f"{options.data} is not what the tokenizer was fitted on ({differences[0]}{rest}): "
            "train a tokenizer on this data, or go on with --allow-drift"
        )
    for difference in differences:
        console.print(f"note: {tokenizer.kind}: {difference}", markup=False, soft_wrap=True)
    job = PolicyJob(policy, train_set, held_out, options.columns.cache)
    config = changed(_recipe(options, policy.kind), options)
    count = sum(p.numel() for p in job.module.parameters() if p.requires_grad)
    what = "" if policy.kind == "vlm-flow" else f" on {tokenizer.kind}"
    console.print(f"training {policy.kind}{what}: {count:,} parameters, {config.steps:,} steps")
    facts = policy.to_json()
    identity = {
        "kind": policy.kind,
        "backbone": options.backbone,
        "net": facts["net"],
        "observation": facts["observation"],
        "tokenizer": tokenizer.digest,
        "data": train_set.fingerprint,
        "init": None if options.init is None else str(options.init),
    }
    if not train(job, config, options.out, identity=identity):
        return policy
    if is_sharding_asked():
        policy, _ = _start(options, dataset)
        load_latest(options.out, policy.net)
    policy.to(policy.device)  # training may have moved the network alone
    policy.calibrate(job.unseen, job.unseen_actions, torch.Generator().manual_seed(options.seed))
    policy.to("cpu")
    policy.extras = {
        "split": {"held_out": split["fraction"], "seed": split["seed"]},
        "train": asdict(config),
        "data": {
            "fingerprint": train_set.fingerprint,
            "fps": dataset.fps,
            "state_keys": dataset.state.keys if dataset.state else (),
            "state_names": dataset.state.names if dataset.state else (),
        },
    }
    policy.save_pretrained(options.out)
    return policy


def affordable_policy_steps(options: TrainPolicy, minutes: float) -> int:
    """How many training steps fit into so many minutes on this machine."""
    dataset = options.columns.open(options.data)
    policy, split = _start(options, dataset)
    job = PolicyJob(policy, *dataset.split(**split), options.columns.cache)
    return steps_within(job, changed(_recipe(options, policy.kind), options), minutes)


def _recipe(options: TrainPolicy, kind: str) -> TrainConfig:
    if kind == "light":
        return policy_preset(options.preset).train
    return vlm_preset(options.preset, kind).train


def _start(options: TrainPolicy, dataset: Dataset) -> tuple[AnyPolicy, dict[str, Any]]:
    """The policy as training begins, and how episodes are split."""
    torch.manual_seed(options.seed)
    if options.init is not None:
        default = TrainPolicy(data=options.data, out=options.out)
        for name, value in _chosen(options).items():
            if value != _chosen(default)[name]:
                flag = name.replace("_", "-")
                raise ValueError(f"{options.init} has its own {flag}: leave --{flag} out")
        policy = load_policy(options.init)
        _require_dims(options, dataset, policy)
        return policy.with_tasks(dataset.tasks), _split(options, policy.extras)
    if options.policy == "light":
        return _start_light(options, dataset)
    return _start_vlm(options, dataset)


def _chosen(options: TrainPolicy) -> dict[str, Any]:
    """What the options say of the policy itself, by the name of the flag."""
    own = {name: getattr(options, name) for name in OF_THE_POLICY}
    return own | asdict(options.loading) | {"no_state": not options.state}


def _start_light(options: TrainPolicy, dataset: Dataset) -> tuple[LightPolicy, dict[str, Any]]:
    if options.backbone is not None:
        raise ValueError("the light policy has no backbone: name --policy vlm-ar, -tc or -flow")
    tokenizer = _tokenizer(options)
    split = _split(options, tokenizer.extras)
    preset = policy_preset(options.preset)
    net = replace(preset.net, endpoints=options.endpoints or None)
    if options.dropout is not None:
        net = replace(net, dropout=options.dropout)
    policy = LightPolicy.for_dataset(
        net,
        tokenizer,
        dataset.split(**split)[0],
        history=options.history or preset.history,
        cameras=options.cameras,
        reads_state=options.state,
    )
    return policy, split


def _start_vlm(options: TrainPolicy, dataset: Dataset) -> tuple[VlmPolicy, dict[str, Any]]:
    if options.backbone is None:
        raise ValueError(f"name the checkpoint of {options.policy} with --backbone")
    if options.dropout is not None:
        raise ValueError(f"{options.policy} has no dropout: leave --dropout out")
    preset = vlm_preset(options.preset, options.policy)
    expert = replace(
        preset.expert,
        width=options.expert_width or preset.expert.width,
        num_layers=options.expert_layers,
    )
    config = VlmConfig(
        objective=options.policy,  # type: ignore[arg-type]  # it is not "light"
        endpoints=options.endpoints or None,
        flow_weight=options.flow_weight,
        expert=expert,
        backbone=options.loading,
    )
    if options.policy == "vlm-flow" and options.tokenizer is None:
        split = _split(options, {})
        train_set = dataset.split(**split)[0]
        sizes = {"horizon": options.horizon, "action_dim": dataset.action_dim}
        tokenizer = ActionTokenizer.for_dataset(make_config("bin", **sizes), train_set)
    else:
        tokenizer = _tokenizer(options)
        split = _split(options, tokenizer.extras)
        train_set = dataset.split(**split)[0]
    policy = VlmPolicy.for_dataset(
        config,
        options.backbone,
        tokenizer,
        train_set,
        history=options.history or 1,
        cameras=options.cameras,
        reads_state=options.state,
    )
    return policy, split


def _tokenizer(options: TrainPolicy) -> ActionTokenizer:
    if options.tokenizer is None:
        raise ValueError("name a tokenizer artifact with --tokenizer, or a policy with --init")
    return load_tokenizer(options.tokenizer)


def _require_dims(options: TrainPolicy, dataset: Dataset, policy: AnyPolicy) -> None:
    for name, has, wanted in (
        ("action", dataset.action_dim, policy.tokenizer.action_dim),
        ("state", dataset.state_dim, policy.spec.state_dim or dataset.state_dim),
    ):
        if has != wanted:
            raise ValueError(
                f"{options.init} is for {wanted} {name} dimensions, {options.data} has {has}"
            )


def _split(options: TrainPolicy, extras: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `Dataset.split`: what the tokenizer did not see, the policy does not see."""
    made = {"held_out": 0.1, "seed": 0} | dict(extras.get("split", {}))
    fraction = made["held_out"] if options.held_out is None else options.held_out
    return {
        "fraction": fraction,
        "seed": made["seed"] if options.split_seed is None else options.split_seed,
    }


class PolicyJob:
    """Training the network on observations and what follows them, as tokens and as actions."""

    def __init__(
        self, policy: AnyPolicy, train_set: Dataset, held_out: Dataset, cache: Path | None
    ) -> None:
        self.module: nn.Module = policy.net
        self._policy = policy
        self._tokens = None
        if "tokens" in policy.heads:
            self._tokens = cached_tokens(policy.tokenizer, train_set, cache)
        self._chunks = train_set.chunks(
            policy.tokenizer.horizon,
            history=policy.spec.history,
            cameras=tuple(policy.spec.cameras),
        )
        self.num_samples = len(self._chunks)
        self.unseen, self.unseen_actions, _ = observations_to_measure(
            policy, held_out, MAX_CHUNKS_TO_EVALUATE
        )

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        tokens = Tokens.full(torch.zeros(len(indices), 0, dtype=torch.int64))
        if self._tokens is not None:
            tokens = self._tokens.take(indices)
        chunks = self._chunks.batch(indices)
        observations = self._policy.read(chunks)
        actions_BTA = torch.from_numpy(chunks["action"])
        return (tokens.ids, tokens.lengths, actions_BTA, *observations.tensors())

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        ids_BK, lengths_B, actions_BTA, *tensors = batch
        tokens, observations = Tokens(ids_BK, lengths_B), Observations.from_tensors(tensors)
        return self._policy.loss(observations, tokens, actions_BTA, random)

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        """Loss and token accuracy, and the flow loss, on held-out chunks."""
        found: dict[str, float] = {}
        if "tokens" in self._policy.heads:
            loss, slots = measure_slots(self._policy, self.unseen, self.unseen_actions)
            reached = sum(slot.share for slot in slots)
            accuracy = sum(slot.share * slot.accuracy for slot in slots) / reached
            found |= {"val_loss": loss, "val_accuracy": accuracy}
        if "flow" in self._policy.heads:
            flow = measure_flow(self._policy, self.unseen, self.unseen_actions)
            found["val_flow_loss"] = flow
        return found
