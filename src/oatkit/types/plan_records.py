"""What a training on GPUs will take, counted beforehand, as it is written to JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedWay:
    """One way to train, and what each GPU holds then, in bytes."""

    is_sharded: bool
    """Whether weights, gradients and moments are shared out (FSDP), not held by each (DDP)."""
    saves_memory: bool
    """Whether layers are computed again in the backward pass."""
    lora_rank: int
    """Rank of adapters; 0 where the model itself is trained."""
    dtype: str
    """Type of the weights that are not trained."""
    accumulate: int
    """Number of parts that the samples of a GPU are computed in."""
    num_trained: int
    """Number of trained parameters."""
    weights: int
    gradients: int
    optimizer: int
    """The moments of AdamW and, where it is asked for, the moving average of the weights."""
    copies: int
    """Weights beside those above: copies of autocast, or layers that FSDP gathers, with their
    gradients."""
    activations: int
    total: int
    """Sum of the five above."""
    fits: bool
    step_flops: int
    """Floating-point operations of a step on all GPUs together."""
    step_s: float
    """Seconds of a step at the utilization of the plan, communication and optimizer left out."""
    samples_per_s: float
    """Samples that must be read in a second, so that the GPUs do not wait."""


@dataclass(frozen=True)
class TrainingPlan:
    """What `oatkit vlm plan` counts."""

    backbone: str
    family: str
    objective: str
    num_parameters: int
    """Number of parameters of the backbone, without its head for text."""
    num_more: int
    """Number of further ones: action tokens, state projection and flow expert."""
    context_slots: int
    """Number of slots of images, instruction and state of a sample."""
    images: int
    """Number of images of a sample: cameras times frames."""
    gpu: str
    num_gpus: int
    gpu_bytes: float
    """Memory of a GPU."""
    usable_bytes: float
    """What of it a plan may use; the rest is for the driver, communication and fragmentation."""
    gpu_flops: float
    """FLOP/s of the data sheet in the precision of the plan."""
    utilization: float
    """Share of those FLOP/s that training is assumed to reach."""
    batch_size: int
    """Number of samples of a step, all GPUs together."""
    precision: str
    asked: PlannedWay
    """The way that was asked for."""
    ways: tuple[PlannedWay, ...]
    """All ways: with and without sharding, gradient checkpointing and adapters."""
    change: str | None
    """The cheapest change that makes it fit, in words; None if it fits, or if none does."""
    changed: PlannedWay | None
    """The way after that change."""
    schema: str = "oatkit/training-plan"
    version: int = 1
