"""A dataset and a tokenizer in, a trained policy out.

    policy = train_policy(dataset, tokenizer, "light", "out/policy", cameras=("front",))

`oatkit policy train` calls this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from oatkit.data import Dataset
from oatkit.data.dataset import require_opened
from oatkit.jobs.policy_batches import PolicyBatches
from oatkit.jobs.step_planning import planned_steps, steps_within
from oatkit.jobs.token_cache import cached_tokens
from oatkit.jobs.tokenizer_training import DEFAULT_HORIZON
from oatkit.jobs.untrained_policy import (
    Folder,
    PolicyStart,
    continue_policy,
    new_policy,
    open_tokenizer,
    policy_config,
    policy_recipe,
)
from oatkit.jobs.working_folder import working_folder
from oatkit.measure.held_out_losses import losses_to_log
from oatkit.measure.policy_metrics import measure_policy, observations_to_measure
from oatkit.measure.reports.policy_findings import policy_cautions
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.policies import Policy
from oatkit.policies.observation.observations import Observations
from oatkit.policies.policy_artifact import CALIBRATED_KEYS
from oatkit.policies.policy_model import PolicyConfig
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.storage.artifact import change_config
from oatkit.tokenizers import ActionTokenizer
from oatkit.train import TrainConfig, load_latest, resolve_config, train
from oatkit.train.precision import with_precision
from oatkit.train.shard import is_sharding_asked
from oatkit.train.training_job import Spread
from oatkit.types import Tokens

MAX_CHUNKS_TO_EVALUATE = 512


def train_policy(
    dataset: Dataset,
    tokenizer: ActionTokenizer | Folder | None = None,
    config: PolicyConfig | Mapping[str, Any] | str | None = None,
    out: Folder | None = None,
    *,
    init: Policy | Folder | None = None,
    backbone: str | None = None,
    preset: str = "small",
    cameras: Sequence[str] = (),
    reads_state: bool = True,
    history: int | None = None,
    horizon: int = DEFAULT_HORIZON,
    train: TrainConfig | Mapping[str, Any] | None = None,
    minutes: float | None = None,
    held_out: float | None = None,
    split_seed: int | None = None,
    allow_drift: bool = False,
    merge_lora: bool = False,
    device: Device = "auto",
    show_progress: bool = False,
) -> Policy:
    """Train a policy on a tokenizer's tokens: light, or on a vision-language backbone.

    Args:
        dataset: Demonstrations to learn from.
        tokenizer: Tokenizer, or folder or hub id of one; it is frozen and stored with the policy.
        config: Name of a policy, such as "vlm-tc", or a config of one; "light" by default. With
            `init`, what that policy becomes: an objective, a config, or settings that change.
        out: Folder for artifact, log and checkpoints; a stopped run continues there. None: none.
        init: Policy, or folder or hub id of one, to start from instead; its tokenizer, cameras,
            history and normalizer are kept.
        backbone: Vision-language checkpoint: folder or hub id.
        preset: Size and training recipe.
        cameras: Cameras to read.
        reads_state: Whether to read the state.
        history: Number of observed frames, the current one included; the preset's by default.
        horizon: Number of actions in a chunk, where no tokenizer says it (`light-flow`,
            `vlm-flow`).
        train: How it is trained: a whole `TrainConfig`, or settings that differ from the preset's,
            such as `{"steps": 500}`. Its seed decides the initial weights too.
        minutes: Training time instead of steps, which are counted in a short trial.
        held_out: Share of the episodes that is never trained on; the tokenizer's by default.
        split_seed: Seed of which episodes those are; the tokenizer's by default.
        allow_drift: Whether actions may differ from those that the tokenizer was trained on.
        merge_lora: Whether adapters become part of the weights when training ends.
        device: Where it is trained: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        show_progress: Whether to print what happens and to show a bar.
    """
    start = PolicyStart(
        backbone, tuple(cameras), reads_state, history, horizon, held_out, split_seed
    )
    how: dict[str, Any] = {"preset": preset, "train": train, "init": init}
    how |= {"allow_drift": allow_drift, "merge_lora": merge_lora}
    training = prepare_policy(dataset, tokenizer, config, start, **how)
    if minutes is not None:
        count = partial(training.affordable_steps, minutes, device)
        steps = planned_steps(minutes, train, out, count)
        training = replace(training, config=replace(training.config, steps=steps))
    return training.run(out, device=device, show_progress=show_progress)


def prepare_policy(
    dataset: Dataset,
    tokenizer: ActionTokenizer | Folder | None = None,
    config: PolicyConfig | Mapping[str, Any] | str | None = None,
    start: PolicyStart = PolicyStart(),
    *,
    preset: str = "small",
    train: TrainConfig | Mapping[str, Any] | None = None,
    init: Policy | Folder | None = None,
    allow_drift: bool = False,
    merge_lora: bool = False,
) -> PolicyTraining:
    """The training that `train_policy` runs, before its first step; the same arguments."""
    require_opened(dataset)
    seed = resolve_config(train, TrainConfig()).seed
    notes: list[str] = []
    if init is not None:
        if tokenizer is not None:
            raise ValueError("the policy to start from has its own tokenizer: leave it out")
        start.require_open()
        make = continue_policy(init, dataset, seed, config, preset, notes.append)
        policy = make()
        split = start.split(policy.extras)
    else:
        if isinstance(config, Mapping):
            raise ValueError("settings that change need a policy to start from: name a config")
        made = config or "light"
        made = policy_config(made, preset) if isinstance(made, str) else made
        opened = open_tokenizer(tokenizer, made, dataset, start)
        split = start.split(opened.extras)
        make = new_policy(made, opened, dataset.split(**split)[0], start, preset, seed)
        policy = make()
    return PolicyTraining(
        policy=policy,
        make=make,
        dataset=dataset,
        split=split,
        config=resolve_config(train, policy_recipe(policy.kind, preset)),
        identity={
            "backbone": start.backbone,
            "init": str(init) if isinstance(init, str | os.PathLike) else None,
        },
        allow_drift=allow_drift,
        merge_lora=merge_lora,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class PolicyTraining:
    """A policy that is not yet trained, its episodes and its recipe.

    Attributes:
        policy: What is trained, in place.
        make: Function that makes the same untrained policy again.
        dataset: All episodes.
        split: Arguments of `Dataset.split` that give those to train on and those held out.
        config: How it is trained.
        identity: JSON of what it starts from; a checkpoint of something else is refused.
        allow_drift: Whether actions may differ from those that the tokenizer was trained on.
        merge_lora: Whether adapters become part of the weights when training ends.
        notes: What to tell before training, a line each.
    """

    policy: Policy
    make: Callable[[], Policy]
    dataset: Dataset
    split: Mapping[str, Any]
    config: TrainConfig
    identity: Mapping[str, Any]
    allow_drift: bool = False
    merge_lora: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_recipe(self.policy, self.config, self.merge_lora)

    def run(
        self,
        out: Folder | None = None,
        *,
        device: Device = "auto",
        show_progress: bool = False,
        is_calibrated: bool = True,
    ) -> Policy:
        """Train and save the policy, then calibrate its thresholds on held-out episodes.

        Calibrating a large policy takes long, so the artifact is there before: without thresholds
        it is complete but for `budget="auto"`.

        Args:
            out: Folder for artifact, log and checkpoints; a stopped run continues there.
            device: Where it is trained.
            show_progress: Whether to print what happens and to show a bar.
            is_calibrated: Whether to calibrate it, and to say what held-out episodes show.
        """
        console = Console(highlight=False, quiet=not show_progress)
        self._check(console)
        train_set, held_out = self.dataset.split(**self.split)
        job = PolicyJob(self.policy, train_set, held_out)
        policy = self.policy
        config = with_precision(self.config, job.module, resolve_device(device))
        count = sum(p.numel() for p in job.module.parameters() if p.requires_grad)
        what = f" on {policy.tokenizer.kind}" if "tokens" in policy.heads else ""
        steps = f"{self.config.steps:,} steps"
        console.print(f"training {policy.kind}{what}: {count:,} parameters, {steps}")
        with working_folder(out) as folder:
            identity = self._identity(train_set)
            how: dict[str, Any] = {"device": device, "show_progress": show_progress}
            if not train(job, config, folder, identity=identity, **how):
                return policy
            trained_on = policy.device
            if is_sharding_asked():
                policy = self.make()
                load_latest(folder, policy.net)
        if self.merge_lora and isinstance(policy.model, VlmModel):
            policy.model.merge_adapters()
        policy.extras = self._extras(train_set, config)
        policy.auto = policy.execution = None
        if out is not None:
            policy.save_pretrained(out)
        if not is_calibrated:
            return policy
        policy.to(trained_on)
        console.print("calibrating on held-out episodes")
        generator = torch.Generator().manual_seed(self.config.seed)
        policy.calibrate(job.held_out, job.held_out_actions, generator)
        if show_progress and not isinstance(policy.model, VlmModel):  # where it takes seconds
            self._say_what_is_wrong(policy, train_set, held_out, console)
        policy.to("cpu")
        if out is not None:
            found = policy.to_json()
            change_config(Path(out), {key: found[key] for key in CALIBRATED_KEYS})
        return policy

    def affordable_steps(self, minutes: float, device: Device = "auto") -> int:
        """Number of training steps that take so many minutes on a device of this machine."""
        job = PolicyJob(self.make(), *self.dataset.split(**self.split))
        return steps_within(job, self.config, minutes, device)

    def _say_what_is_wrong(
        self, policy: Policy, train_set: Dataset, held_out: Dataset, console: Console
    ) -> None:
        most = MAX_CHUNKS_TO_EVALUATE
        measured = measure_policy(
            policy, held_out, train_set=train_set, split="val", max_chunks=most
        )
        for line in policy_cautions(measured):
            _note(console, line)

    def _check(self, console: Console) -> None:
        """Refuse actions that drifted, and note what is unusual."""
        policy, tokenizer = self.policy, self.policy.tokenizer
        for line in self.notes:
            _note(console, line)
        if policy.schedule != tokenizer.schedule and policy.head == "tokens":
            _note(
                console,
                f"{tokenizer.kind} is meant to be generated up to "
                f"{list(tokenizer.schedule.endpoints)} tokens stage by stage, the policy is "
                f"trained on {list(policy.schedule.endpoints)}",
            )
        unused = _unused_dtype(policy)
        if unused is not None:
            _note(
                console,
                f"--dtype {unused} is for weights that are not trained, and all of them are: they "
                "stay float32; --precision bfloat16 computes in it",
            )
        differences = tokenizer.check(self.dataset.split(**self.split)[0])
        if differences and not self.allow_drift:
            rest = f"; and {len(differences) - 1} more" if len(differences) > 1 else ""
            raise ValueError(
                f"{self.dataset.path} is not what the tokenizer was fitted on ({differences[0]}"
                f"{rest}): train a tokenizer on this data, or go on with --allow-drift "
                "(allow_drift=True)"
            )
        for difference in differences:
            _note(console, f"{tokenizer.kind}: {difference}")

    def _identity(self, train_set: Dataset) -> dict[str, Any]:
        facts = self.policy.to_json()
        return {
            **self.identity,
            "kind": self.policy.kind,
            "net": facts["net"],
            "observation": facts["observation"],
            "tokenizer": self.policy.tokenizer.digest,
            "data": train_set.fingerprint,
        }

    def _extras(self, train_set: Dataset, config: TrainConfig) -> dict[str, Any]:
        return {
            "split": {"held_out": self.split["fraction"], "seed": self.split["seed"]},
            "train": asdict(config),
            "data": policy_data(train_set),
        }


def policy_data(train_set: Dataset) -> dict[str, Any]:
    """What an artifact says of the episodes that its policy was trained on."""
    state = train_set.state
    return {
        "fingerprint": train_set.fingerprint,
        "fps": train_set.fps,
        "state_keys": state.keys if state else (),
        "state_names": state.names if state else (),
    }


def check_recipe(policy: Policy, config: TrainConfig, merge_lora: bool) -> None:
    """Refuse settings of a training that contradict each other or the policy."""
    is_vlm = isinstance(policy.model, VlmModel)
    if config.expert_start and is_vlm and policy.net.config.expert_only:
        raise ValueError(
            "--expert-only trains nothing in the steps before --expert-start: leave one out"
        )
    if merge_lora and not _has_adapters(policy):
        raise ValueError(
            f"{policy.kind} has no adapters to merge: add them with --lora-rank, or leave "
            "--merge-lora out"
        )


def _unused_dtype(policy: Policy) -> str | None:
    """The type for frozen weights of a backbone of which nothing is frozen."""
    if not isinstance(policy.model, VlmModel):
        return None
    wanted = policy.net.config.backbone.dtype
    found = {parameter.dtype for parameter in policy.net.backbone.parameters()}
    return None if getattr(torch, wanted) in found else wanted


def _has_adapters(policy: Policy) -> bool:
    return isinstance(policy.model, VlmModel) and policy.net.config.backbone.lora_rank > 0


def _note(console: Console, text: str) -> None:
    console.print(f"note: {text}", markup=False, soft_wrap=True)


class PolicyJob:
    """Training a policy's network on observations and the actions that follow, also as tokens."""

    def __init__(self, policy: Policy, train_set: Dataset, held_out: Dataset) -> None:
        self.module: nn.Module = policy.net
        self._policy = policy
        tokens = cached_tokens(policy.tokenizer, train_set) if "tokens" in policy.heads else None
        spec, reading = policy.spec, policy.episode.resized()
        chunks = train_set.chunks(
            policy.tokenizer.horizon,
            history=spec.history,
            cameras=tuple(spec.cameras),
            resize=reading.resize,
        )
        self.batch = PolicyBatches(chunks, tokens, reading.read)
        self.num_samples = len(chunks)
        self.held_out, self.held_out_actions, self._held_out_is_pad = observations_to_measure(
            policy, held_out, MAX_CHUNKS_TO_EVALUATE
        )
        self._held_out_tokens = policy.tokenizer.encode(
            self.held_out_actions, spec.start_state(self.held_out)
        )

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        """The policy's own loss."""
        ids_BK, lengths_B, actions_BTA, is_pad_BT, *tensors = batch
        tokens, observations = Tokens(ids_BK, lengths_B), Observations.from_tensors(tensors)
        return self._policy.loss(observations, tokens, actions_BTA, random, is_pad_BT)

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """Nothing follows a step of a policy."""

    def evaluate(self, spread: Spread) -> dict[str, float]:
        """Loss and token accuracy, and the flow loss, on held-out chunks."""
        truth = (self._held_out_tokens, self.held_out_actions, self._held_out_is_pad)
        return losses_to_log(self._policy, self.held_out, *truth, spread)
