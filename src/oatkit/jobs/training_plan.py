"""What training a vision-language policy on GPUs will take, counted before there are any.

The network is built without memory for its weights, and one step of the loss that trains runs on
it (`oatkit.nn.dry_run`): bytes and operations are counted, not guessed. What GPUs share out is
arithmetic:

    DDP     each GPU holds all weights, gradients and moments, and the copies that autocast makes
    FSDP    each holds its part; a layer, and the next one, are gathered while it runs, and all
            that is outside of layers during the whole step
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from oatkit.jobs.backbone_check import (
    ACTION_DIM,
    NUM_TOKENS,
    STATE_DIM,
    StepSettings,
    make_trial_policy,
)
from oatkit.jobs.gpu_table import GPUS, Gpu, gpu_named
from oatkit.nn.dry_run import DryRun, without_memory
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.weight_loading import WithoutWeights
from oatkit.policies import Policy
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.presets import vlm_preset
from oatkit.train.train_config import Precision
from oatkit.types import PlannedWay, Tokens, TrainingPlan

GRADIENT, MOMENTS, AVERAGE = 4, 8, 4
"""Bytes of a trained parameter, which is float32: beside itself, its gradient and two moments."""
USABLE = 0.9
"""Share of a GPU's memory that a plan may use."""
RANK = 16
"""Rank of adapters where none is asked for, but a plan shows what they would save."""


@dataclass(frozen=True)
class PlanSettings:
    """The training that is planned, as far as it decides memory and time."""

    gpus: int = 8
    """Number of GPUs."""
    gpu: str = "a100-80"
    """Name of the GPU, or its gigabytes and bfloat16 TFLOP/s, such as 96:400."""
    batch: int | None = None
    """Number of samples of a step, of all GPUs together; that of the preset paper by default."""
    fsdp: bool = False
    """Share weights, gradients and moments out, as configs/accelerate/fsdp.yaml does."""
    accumulate: int = 1
    """Compute the samples of a GPU in so many parts."""
    ema: bool = False
    """Keep a moving average of the weights."""
    precision: Precision = "bfloat16"
    """Number format of the computation."""
    expert_width: int = ExpertConfig.width
    """Width of the flow expert."""
    expert_layers: int | None = None
    """Number of layers of the flow expert; as many as the backbone has by default."""
    num_cameras: int = 1
    """Number of cameras."""
    history: int = 1
    """Number of frames that are observed, the current one included."""
    image_size: int = 224
    """Height and width of the images that are shown."""
    horizon: int = 32
    """Number of actions in a chunk."""
    task_tokens: int = 24
    """Number of tokens of an instruction."""
    utilization: float = 0.4
    """Share of the FLOP/s of the data sheet that training reaches."""

    def __post_init__(self) -> None:
        for name in ("gpus", "accumulate", "task_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch is {self.batch}, expected at least 1")
        if not 0 < self.utilization <= 1:
            raise ValueError(f"utilization is {self.utilization}, expected more than 0, at most 1")
        if self.fsdp and self.gpus == 1:
            raise ValueError("one GPU has nobody to share with: leave --fsdp out, or add --gpus")
        gpu_named(self.gpu)
        StepSettings(**self._step_values())

    @property
    def step(self) -> StepSettings:
        """The settings of a step that do not depend on the number of GPUs."""
        return StepSettings(**self._step_values())

    def _step_values(self) -> dict[str, Any]:
        names = {field.name for field in fields(StepSettings)}
        return {name: value for name, value in asdict(self).items() if name in names}


@dataclass(frozen=True)
class StepCount:
    """What one pass forward and backward on one GPU holds and computes, weights apart."""

    activations: int
    copies: int
    flops: int


def plan_training(
    backbone: str,
    settings: PlanSettings = PlanSettings(),
    loading: BackboneOptions = BackboneOptions(),
    *,
    objective: str = "vlm-tc",
) -> TrainingPlan:
    """Count what a training will take, on a machine without a GPU and without the weights.

    Args:
        backbone: Folder with a `config.json`, or the id of a published checkpoint.
        settings: GPUs, batch and sizes.
        loading: Which of its weights are trained, and how.
        objective: What the policy is trained for.
    """
    batch = settings.batch or vlm_preset("paper", objective).train.batch_size
    if batch % (settings.gpus * settings.accumulate):
        raise ValueError(
            f"batch {batch} is not divisible by {settings.gpus} GPUs times {settings.accumulate} "
            "parts"
        )
    if loading.device_map is not None:
        raise ValueError("a plan is for layers on one GPU each: leave --device-map out")
    counts = _Counts(backbone, settings, objective, batch // settings.gpus)
    asked = _way(counts, loading, settings.fsdp, settings.accumulate)
    ways = tuple(
        asked
        if (options, is_sharded) == (loading, settings.fsdp)
        else _way(counts, options, is_sharded, settings.accumulate)
        for options, is_sharded in _grid(loading, settings)
    )
    change, changed = (None, None) if asked.fits else _cheapest(counts, loading, settings)
    policy, gpu = counts.policy(loading), gpu_named(settings.gpu)
    own = sum(p.numel() for p in policy.net.backbone.parameters())
    return TrainingPlan(
        backbone=backbone,
        family=policy.net.backbone.family.name,
        objective=objective,
        num_parameters=own,
        num_more=sum(p.numel() for p in policy.net.parameters()) - own,
        context_slots=sum(map(len, policy.net.parts)) + settings.task_tokens,
        images=settings.num_cameras * settings.history,
        gpu=gpu.name,
        num_gpus=settings.gpus,
        gpu_bytes=gpu.memory,
        usable_bytes=USABLE * gpu.memory,
        gpu_flops=gpu.flops(settings.precision),
        utilization=settings.utilization,
        batch_size=batch,
        precision=settings.precision,
        asked=asked,
        ways=ways,
        change=change,
        changed=changed,
    )


class _Counts:
    """Counts of steps in different ways, each counted once."""

    def __init__(
        self, backbone: str, settings: PlanSettings, objective: str, num_samples: int
    ) -> None:
        self.settings, self.num_samples = settings, num_samples
        self._backbone, self._objective = backbone, objective
        self.policy = cache(self._policy)
        self.step = cache(self._step)

    def _policy(self, loading: BackboneOptions) -> Policy:
        from oatkit.policies.vlm.backbones.loading import empty_backbone

        with WithoutWeights():
            backbone = empty_backbone(self._backbone, loading)
            policy = make_trial_policy(backbone, loading, self.settings.step, self._objective)
        without_memory(policy.net)
        return policy

    def _step(self, loading: BackboneOptions, num_samples: int) -> StepCount:
        policy = self.policy(loading)
        return count_step(policy, num_samples, self.settings.task_tokens, self.settings.precision)


def count_step(
    policy: Policy, num_samples: int, task_tokens: int, precision: Precision
) -> StepCount:
    """Count one pass of training, forward and backward, of a policy with or without memory.

    Args:
        policy: Policy whose network is on the CPU.
        num_samples: Number of samples.
        task_tokens: Number of tokens of an instruction.
        precision: Number format of the computation.
    """
    policy.net.train()
    with DryRun(policy.net) as run:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = trial_loss(policy, num_samples, task_tokens)
        loss.backward()  # type: ignore[no-untyped-call]
    policy.net.zero_grad(set_to_none=True)
    return StepCount(run.activations, run.copies, run.flops)


def trial_loss(policy: Policy, num_samples: int, task_tokens: int) -> Tensor:
    """The training loss on samples of zeros, which are as large as those of a dataset."""
    spec, processor = policy.spec, policy.net.backbone.processor
    blank = (torch.zeros(1, 3, *size, dtype=torch.uint8) for size in spec.cameras.values())
    shape = (num_samples, spec.history)
    observations = Observations(
        torch.zeros(num_samples, task_tokens, dtype=torch.int64),
        torch.zeros(*shape, STATE_DIM),
        tuple(
            torch.zeros(*shape, *processor.pixels(image).shape[1:], dtype=torch.uint8)
            for image in blank
        ),
        torch.ones(*shape, len(spec.cameras), dtype=torch.bool),
    )
    tokens = Tokens.full(torch.zeros(num_samples, NUM_TOKENS, dtype=torch.int64))
    actions_BTA = torch.zeros(num_samples, policy.tokenizer.horizon, ACTION_DIM)
    random = SampleRandom(sample_keys(0, 0, torch.arange(num_samples)))
    return policy.loss(observations, tokens, actions_BTA, random).total


def _way(
    counts: _Counts, loading: BackboneOptions, is_sharded: bool, accumulate: int
) -> PlannedWay:
    """What each GPU holds in one way to train."""
    settings = counts.settings
    gpu = gpu_named(settings.gpu)
    step = counts.step(loading, counts.num_samples // accumulate)
    held = _state(counts, loading, is_sharded)
    if not is_sharded:
        held["copies"] = step.copies
    held["activations"] = step.activations
    flops = step.flops * accumulate
    step_s = flops / (settings.utilization * gpu.flops(settings.precision))
    total = sum(held.values())
    return PlannedWay(
        is_sharded=is_sharded,
        saves_memory=loading.save_memory,
        lora_rank=loading.lora_rank,
        dtype=loading.dtype,
        accumulate=accumulate,
        num_trained=_num_trained(counts.policy(loading)),
        **held,
        total=total,
        fits=total <= USABLE * gpu.memory,
        step_flops=flops * settings.gpus,
        step_s=step_s,
        samples_per_s=counts.num_samples * settings.gpus / step_s,
    )


def _num_trained(policy: Policy) -> int:
    return sum(p.numel() for p in policy.net.parameters() if p.requires_grad)


def _state(counts: _Counts, loading: BackboneOptions, is_sharded: bool) -> dict[str, int]:
    """Bytes on each GPU that do not depend on the samples; copies of autocast are not in it."""
    settings, policy = counts.settings, counts.policy(loading)
    trained = _num_trained(policy)
    moments = MOMENTS + (AVERAGE if settings.ema else 0)
    held = {
        "weights": sum(p.numel() * p.element_size() for p in policy.net.parameters()),
        "gradients": GRADIENT * trained,
        "optimizer": moments * trained,
    }
    if is_sharded:
        held = {name: -(-size // settings.gpus) for name, size in held.items()}
        held["copies"] = _gathered(policy, settings.precision)
    return held


def _gathered(policy: Policy, precision: Precision) -> int:
    """Most bytes that FSDP gathers at once: weights, their gradients, and these in float32 to be
    averaged; of layers the largest, and the weights of the next one ahead of it."""
    number = 2 if precision == "bfloat16" else 4

    def size(modules: Any, weights: int) -> int:
        return sum(
            p.numel() * (weights + (number + GRADIENT if p.requires_grad else 0))
            for module in modules
            for p in module.parameters()
        )

    blocks = policy.net.blocks
    outside = size([policy.net], number) - size(blocks, number)
    return outside + max(size([block], 2 * number) for block in blocks)


def _grid(
    loading: BackboneOptions, settings: PlanSettings
) -> Iterator[tuple[BackboneOptions, bool]]:
    """The ways to train: with and without adapters, gradient checkpointing and sharding."""
    for options in (_without_adapters(loading), _with_adapters(loading, settings)):
        if options is not None:
            for save_memory in (False, True):
                for is_sharded in (False, True)[: min(settings.gpus, 2)]:
                    yield replace(options, save_memory=save_memory), is_sharded


def _without_adapters(loading: BackboneOptions) -> BackboneOptions:
    return replace(loading, lora_rank=0, train_vision=False)


def _with_adapters(loading: BackboneOptions, settings: PlanSettings) -> BackboneOptions | None:
    """The same with adapters on weights of the type that is computed in; None where the language
    model is frozen, which has none then."""
    if loading.lora_rank or loading.freeze_language:
        return loading if loading.lora_rank else None
    return replace(loading, lora_rank=RANK, dtype=settings.precision)


def _cheapest(
    counts: _Counts, loading: BackboneOptions, settings: PlanSettings
) -> tuple[str | None, PlannedWay | None]:
    """The cheapest change after which a plan fits, in words, and the way after it.

    What only cuts a batch into parts is cheaper than what communicates more (FSDP), that is cheaper
    than to compute layers twice, and that than to train adapters, which learns something else.
    """
    adapted = _with_adapters(loading, settings)
    for options in [loading, *([] if adapted in (None, loading) else [adapted])]:
        for save_memory in sorted({loading.save_memory, True}):
            for is_sharded in sorted({settings.fsdp, settings.gpus > 1}):
                tried = replace(options, save_memory=save_memory)
                way = _least_parts(counts, tried, is_sharded, settings.accumulate)
                if way is not None:
                    return _in_words(way, loading, settings), way
    return None, None


def _least_parts(
    counts: _Counts, loading: BackboneOptions, is_sharded: bool, accumulate: int
) -> PlannedWay | None:
    """The way with the fewest parts of a batch that fits; None if one sample does not."""
    usable = USABLE * gpu_named(counts.settings.gpu).memory
    if sum(_state(counts, loading, is_sharded).values()) > usable:
        return None
    parts = [n for n in range(accumulate, counts.num_samples + 1) if counts.num_samples % n == 0]
    if not _way(counts, loading, is_sharded, parts[-1]).fits:
        return None
    ways = (_way(counts, loading, is_sharded, number) for number in parts)
    return next(way for way in ways if way.fits)


def _in_words(way: PlannedWay, loading: BackboneOptions, settings: PlanSettings) -> str:
    """The flags that change."""
    changes = []
    if way.lora_rank != loading.lora_rank:
        frozen = "" if way.dtype == loading.dtype else f" --dtype {way.dtype}"
        changes.append(f"--lora-rank {way.lora_rank}{frozen}, which trains adapters alone")
    if way.saves_memory != loading.save_memory:
        changes.append("--save-memory, which computes layers twice")
    if way.is_sharded != settings.fsdp:
        changes.append("configs/accelerate/fsdp.yaml (--fsdp here)")
    if way.accumulate != settings.accumulate:
        changes.append(f"--accumulate {way.accumulate}")
    return " and ".join(changes)


def smallest_gpu(total: int) -> Gpu | None:
    """The GPU of the table with the least memory that holds so many bytes; None if none does."""
    return next((gpu for gpu in GPUS.values() if total <= USABLE * gpu.memory), None)
