"""What is found about policies and their backbones, as it is written to JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from oatkit.types.budget import Budget
from oatkit.types.sampling import Sampling


@dataclass(frozen=True)
class PolicySlot:
    """How well a policy predicts one token slot, given the true tokens before its block."""

    share: float
    """Share of the sequences that reach the slot; the end symbol counts as a token."""
    accuracy: float
    """Share of true tokens that the policy finds the likeliest."""
    entropy_bits: float
    """Mean entropy of the policy's prediction."""
    loss_bits: float
    """Mean negative log likelihood of the true token, in bits."""


@dataclass(frozen=True)
class PolicyBudget:
    """Errors of sampled chunks at one budget, raw units."""

    budget: Budget
    """Number of tokens that were asked for; "auto" where the policy decided when to stop."""
    tokens: float
    """Mean number of tokens that were decoded."""
    calls: float
    """Mean number of stages."""
    mse: float | None
    """Mean squared error, repeated tail steps counted; None where nothing decodes."""
    mse_without_padding: float | None
    tokenizer_mse: float
    """Mean squared error of the true tokens, decoded: what the tokenizer itself leaves."""
    mae: tuple[float, ...]
    """Mean absolute error of each dimension; empty where nothing decodes."""


@dataclass(frozen=True)
class Baseline:
    """Errors of an answer that needs no network, on the same chunks as the policy's, raw units."""

    name: str
    """One of `oatkit.measure.baselines.BASELINES`."""
    mse: float
    """Mean squared error, repeated tail steps counted."""
    mse_without_padding: float


@dataclass(frozen=True)
class PolicyMeasurement:
    """What `oatkit policy measure` finds, without a simulator."""

    path: str
    kind: str
    """Kind of the tokenizer."""
    data: str
    split: str
    num_chunks: int
    num_parameters: int
    loss: float
    """The training loss on these chunks, nats."""
    slots: tuple[PolicySlot, ...]
    budgets: tuple[PolicyBudget, ...]
    auto: PolicyBudget | None
    """Errors with `budget="auto"`; None where it has no thresholds."""
    invalid: float
    """Share of sampled sequences that do not decode."""
    variance: tuple[float | None, ...]
    """Variance of each dimension of the predicted actions over that of the true ones, with all
    tokens: near 0 where the policy repeats itself, None where the true ones are constant, empty
    where nothing decodes."""
    baselines: tuple[Baseline, ...] = ()
    """What the policy should beat; empty in older records and where no training episodes are
    known."""
    train_loss: float | None = None
    """The same loss on chunks of the training episodes; None where those are not known."""
    sampling: Sampling = Sampling()
    """Rules by which the tokens were chosen."""
    schema: str = "oatkit/policy-measurement"
    version: int = 3


@dataclass(frozen=True)
class Invariant:
    """Something that must hold for a policy, whatever its weights are."""

    name: str
    holds: bool
    value: float
    """Largest difference or gradient that was found."""


@dataclass(frozen=True)
class MeasuredStep:
    """The training step whose time and memory `oatkit vlm check` measures."""

    objective: str
    batch_size: int
    precision: str
    expert_width: int
    num_cameras: int
    history: int
    image_size: int
    horizon: int
    device: str


@dataclass(frozen=True)
class BackboneCheck:
    """What `oatkit vlm check` finds of a backbone."""

    checkpoint: str
    family: str
    num_parameters: int
    num_trained: int
    context_slots: int
    train_s: float
    """Seconds of one training step after the first, optimizer included."""
    train_bytes: int
    """Most bytes that training steps allocated on a CUDA device; elsewhere the most memory that
    this process ever had."""
    prefill_ms: float
    suffix_ms: float
    """Milliseconds of one call of generation."""
    invariants: tuple[Invariant, ...]
    step: MeasuredStep | None = None
    """What was trained; None in records of version 1: 2 samples in the type of the weights."""
    schema: str = "oatkit/backbone-check"
    version: int = 2


@dataclass(frozen=True)
class SuccessRate:
    """How many episodes succeeded, with the Wilson 95 % interval of the rate."""

    successes: int
    episodes: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class EpisodeResult:
    """One episode of a policy in a simulator."""

    task: str
    budget: Budget
    """Number of tokens that were asked for, or "auto"."""
    episode: int
    seed: int
    """Seed of the simulator, the same for every policy and budget."""
    is_success: bool
    """Whether it was solved at any step; the episode ends there."""
    score: float | None
    """Best score of any step, 0 to 1; None where the simulator gives no scores."""
    steps: int
    queries: int
    """Number of chunks that the policy was asked for."""
    calls: float
    """Mean number of generation stages of a query."""
    tokens: float
    """Mean number of tokens that were decoded in a query."""
    latency_ms: float
    """Mean time of a query, from observation to chunk; episodes that are queried together share
    it."""
    clipped: float
    """Share of the executed actions that lay outside the simulator's bounds and were clipped."""
    repeats: int
    """Number of times it was begun again because its worker process died."""
    error: str | None
    """Why the policy gave no chunk, which ends the episode without success."""
    redrawn: int | None = None
    """Number of queries whose tokens did not decode at first and were generated again; None in a
    record that is older than this count."""
    seam_jump: float | None = None
    """Mean root mean square difference to the action before, normalized units, of actions at which
    a chunk begins; None in older records and where there are none."""
    inner_jump: float | None = None
    """The same of all other actions."""


@dataclass(frozen=True)
class TaskResult:
    """One task at one budget."""

    task: str
    success: SuccessRate
    score: float | None
    """Mean of the best scores of the episodes."""


@dataclass(frozen=True)
class BudgetResult:
    """All tasks at one budget."""

    budget: Budget
    """Number of tokens that were asked for, or "auto"."""
    tasks: tuple[TaskResult, ...]
    success: SuccessRate
    """Success over all episodes together."""
    mean_success: float
    """Mean success over the tasks, each counted the same."""
    score: float | None
    steps: float
    """Mean number of steps of an episode."""
    calls: float
    """Mean number of generation stages of a query."""
    tokens: float
    """Mean number of tokens that were decoded in a query."""
    latency_ms: float | None
    """Median time of a query for one observation alone, measured apart from the episodes."""
    steps_per_query: float | None = None
    """Mean number of steps that are executed after a query; None in older records."""
    calls_per_s: float | None = None
    """Mean number of generation stages for a second of acting; None in older records."""
    seam_jump: float | None = None
    """Mean jump of the episodes at the beginnings of chunks, normalized units."""
    inner_jump: float | None = None
    """Mean jump of the episodes elsewhere, normalized units."""


@dataclass(frozen=True)
class PairedComparison:
    """Comparison of two policies or budgets on the same episodes."""

    first: str
    second: str
    episodes: int
    only_first: int
    """Number of episodes that only the first solved."""
    only_second: int
    difference: float
    """Success rate of the second less that of the first."""
    low: float
    """Lower end of the 95 % interval of the difference (Newcombe's for paired proportions)."""
    high: float
    p_value: float
    """Exact McNemar test, two-sided: how likely so uneven a split is if both are equally good."""


@dataclass(frozen=True)
class EpisodeVideo:
    """Where the video of an episode is."""

    task: str
    budget: Budget
    """Number of tokens that were asked for, or "auto"."""
    episode: int
    path: str
    """Path below the folder of the record."""


@dataclass(frozen=True)
class PolicyEvaluation:
    """What `oatkit policy eval` finds."""

    policy: str
    kind: str
    """Kind of the tokenizer."""
    settings: dict[str, Any]
    """The protocol: everything that decides an episode, which must be the same when an evaluation
    goes on."""
    versions: dict[str, str]
    command: str = ""
    """Command line that was typed last."""
    device: str = ""
    """Where the policy ran last, such as "cuda:0 (NVIDIA A100)"; empty where nothing said it."""
    worker_deaths: int = 0
    """Number of worker processes that died and were started again."""
    worker_hangs: int = 0
    """Number of worker processes that did not answer, were killed and started again."""
    seconds: float = 0.0
    latencies_ms: dict[str, float | None] = field(default_factory=dict)
    """Budget to the median time of a query for one observation alone."""
    episodes: tuple[EpisodeResult, ...] = ()
    budgets: tuple[BudgetResult, ...] = ()
    comparisons: tuple[PairedComparison, ...] = ()
    others: tuple[PolicyEvaluation, ...] = ()
    """Evaluations that this one is compared with, without their episodes."""
    videos: tuple[EpisodeVideo, ...] = ()
    schema: str = "oatkit/policy-evaluation"
    version: int = 6


@dataclass(frozen=True)
class DemoStage:
    """One part of the demo."""

    name: str
    command: str
    """Command line that does the same by hand."""
    seconds: float
    """Time of all runs that it took together."""
    is_done: bool


@dataclass(frozen=True)
class DemoRecord:
    """What `oatkit demo` did; its results are in the records of its parts."""

    settings: dict[str, Any]
    """Everything that decides the demo, which must be the same when it goes on."""
    versions: dict[str, str]
    machine: str
    num_episodes: int = 0
    """Number of demonstrations."""
    num_frames: int = 0
    stages: tuple[DemoStage, ...] = ()
    schema: str = "oatkit/demo"
    version: int = 2


PolicyAblation = Literal["horizons-half", "horizons-fixed", "levels"]


@dataclass(frozen=True)
class PolicySweepRow:
    """One evaluated policy of a sweep."""

    ablation: PolicyAblation
    execute: int
    """Number of steps of a chunk that were executed before the next query."""
    horizon: int
    num_tokens: int
    levels: tuple[int, ...]
    vocab_size: int
    num_parameters: int
    """Number of parameters of the policy."""
    seconds: float
    """Time of the policy's training."""
    result: BudgetResult
    """Result with all tokens."""


@dataclass(frozen=True)
class PolicySweep:
    """What `oatkit policy sweep` finds."""

    data: str
    settings: dict[str, Any]
    """Everything that decides the result, which must be the same when a sweep goes on."""
    rows: tuple[PolicySweepRow, ...] = ()
    schema: str = "oatkit/policy-sweep"
    version: int = 3
