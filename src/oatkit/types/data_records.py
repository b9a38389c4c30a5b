"""What is found about datasets, as it is written to JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CheckKind = Literal[
    "non-finite",
    "constant",
    "action-is-state",
    "wrapping-angle",
    "idle",
    "short-episode",
    "outlier",
    "duplicate-episode",
    "timestamps",
    "missing-video",
]


@dataclass(frozen=True)
class Finding:
    """Something in a dataset that harms training: what, where, and what to do about it."""

    kind: CheckKind
    message: str
    remedy: str
    episode: int | None = None
    frame: int | None = None


@dataclass(frozen=True)
class DatasetCheck:
    """What `oatkit data check` found."""

    path: str
    format: str
    horizon: int
    findings: tuple[Finding, ...]
    schema: str = "oatkit/dataset-check"
    version: int = 1


@dataclass(frozen=True)
class DimensionSummary:
    """One dimension of the action or the state at a glance."""

    name: str
    min: float
    max: float
    mean: float
    std: float
    q01: float
    q99: float
    histogram: tuple[int, ...]
    """Counts in equal bins from min to max."""


@dataclass(frozen=True)
class CameraSummary:
    """A camera and the size of its images."""

    name: str
    height: int
    width: int
    is_available: bool


@dataclass(frozen=True)
class TaskSummary:
    """An instruction and how often it occurs."""

    text: str
    num_episodes: int


@dataclass(frozen=True)
class DatasetInfo:
    """What `oatkit data info` shows."""

    path: str
    format: str
    num_episodes: int
    num_frames: int
    length_quantiles: tuple[int, int, int, int, int]
    """Episode length in frames: minimum, 25 %, median, 75 %, maximum."""
    fps: float | None
    cameras: tuple[CameraSummary, ...]
    tasks: tuple[TaskSummary, ...]
    action_keys: tuple[str, ...]
    action: tuple[DimensionSummary, ...]
    state_keys: tuple[str, ...]
    state: tuple[DimensionSummary, ...]
    other_columns: tuple[str, ...]
    fingerprint: str
    actions: str = "absolute"
    """How actions are represented in training."""
    schema: str = field(default="oatkit/dataset-info")
    version: int = 2
