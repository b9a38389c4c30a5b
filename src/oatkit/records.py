"""Result records: what commands find, as they write it to JSON, and how it is read back."""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")

CheckKind = Literal[
    "non-finite",
    "constant",
    "action-is-state",
    "wrapping-angle",
    "short-episode",
    "outlier",
    "duplicate-episode",
    "timestamps",
    "missing-video",
]


@dataclass(frozen=True)
class Finding:
    """Something in a dataset that ruins training: what, where, and what to do about it."""

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
    name: str
    height: int
    width: int
    is_available: bool


@dataclass(frozen=True)
class TaskSummary:
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
    schema: str = field(default="oatkit/dataset-info")
    version: int = 1


@dataclass(frozen=True)
class BudgetMeasurement:
    """Rate and distortion at one budget, over held-out chunks."""

    budget: int
    """How many leading tokens were kept; 0 decodes masks only."""
    is_trained: bool
    """Whether this budget had direct supervision."""
    tokens: float
    """Mean number of tokens; less than the budget only where lengths vary."""
    bits: float
    """tokens * log2(vocabulary)."""
    entropy_bits: float
    """Sum over the kept slots of the entropy of the ids that occur there, each weighted by the
    share of sequences that reach it."""
    mse: float
    """Mean squared error in raw units, repeated tail steps counted."""
    mse_without_padding: float
    """The same without the steps past an episode's end."""
    mse_normalized: float
    gaussian_mse: float
    """What an ideal linear code of a Gaussian source leaves at these bits, raw units."""
    mae: tuple[float, ...]
    """Mean absolute error of each dimension, raw units."""
    worst: tuple[float, ...]
    """Largest absolute error of each dimension, raw units."""
    jerk_ratio: float
    """Mean squared third difference of decoded over true chunks; 1 is as smooth."""


@dataclass(frozen=True)
class SlotMeasurement:
    """How one token slot uses the vocabulary."""

    usage: float
    """Share of the vocabulary that occurs."""
    perplexity: float
    """Two to the power of the entropy of its ids."""


@dataclass(frozen=True)
class Robustness:
    """How decoding answers what an encoder would not send."""

    random_finite: float
    """Share of random sequences that decode to finite chunks."""
    random_undecodable: float
    """Share that does not decode at all."""
    corrupted_finite: float
    """Share of real sequences with one random token that decode to finite chunks."""
    corrupted_undecodable: float
    corrupted_mse: float | None
    """Raw mean squared change of those chunks that decode; None where none does."""


@dataclass(frozen=True)
class TokenizerMeasurement:
    """What `oatkit tokenizer measure` finds."""

    path: str
    kind: str
    data: str
    split: str
    num_chunks: int
    horizon: int
    action_dim: int
    vocab_size: int
    max_tokens: int
    num_parameters: int
    budgets: tuple[BudgetMeasurement, ...]
    slots: tuple[SlotMeasurement, ...]
    robustness: Robustness
    encode_chunks_per_s: float
    decode_chunks_per_s: float
    schema: str = "oatkit/tokenizer-measurement"
    version: int = 1


@dataclass(frozen=True)
class Property:
    """Whether a tokenizer has one of the paper's properties, and the measurement that says so."""

    holds: bool | None
    """None where the question does not apply."""
    evidence: str


@dataclass(frozen=True)
class Properties:
    """The columns of the paper's table of tokenizers."""

    compact: Property
    total: Property
    ordered: Property
    block_compatible: Property


@dataclass(frozen=True)
class Allocation:
    """How information spreads over the tokens of an ordered kind, in normalised units.

    The paper's identity is `expected_error = errors[0] - sum of survival * gains`.
    """

    budgets: tuple[int, ...]
    """What K is drawn from in training, all equally likely."""
    errors: tuple[float, ...]
    """epsilon(0) .. epsilon(num_tokens): mean squared error with so many tokens kept."""
    gains: tuple[float, ...]
    """Delta_1 .. : what each further token takes off."""
    survival: tuple[float, ...]
    """w_1 .. = Pr(K >= i): how often training keeps each token."""
    expected_error: float
    """E_K[epsilon(K)], by decoding every chunk at every K."""
    expanded_error: float
    """The right side of the identity, from the gains and the survival weights."""


@dataclass(frozen=True)
class Reconstruction:
    """A sample chunk decoded from its first tokens."""

    sample: int
    """Which of the comparison's samples."""
    budget: int
    actions: tuple[tuple[float, ...], ...]
    """Steps of the chunk, raw units, rounded."""


@dataclass(frozen=True)
class LossPoint:
    step: int
    loss: float


@dataclass(frozen=True)
class KindComparison:
    """One kind in a comparison."""

    measurement: TokenizerMeasurement
    properties: Properties
    allocation: Allocation | None
    """Of the kinds that decode prefixes."""
    reconstructions: tuple[Reconstruction, ...]
    """Of the kinds that decode prefixes."""
    seconds: float
    """Time of training or fitting."""
    losses: tuple[LossPoint, ...]
    """How training went, thinned out; empty where nothing is trained."""


@dataclass(frozen=True)
class TokenizerComparison:
    """What `oatkit tokenizer compare` finds."""

    data: str
    num_episodes: int
    """Held-out episodes, on which everything is measured."""
    dimensions: tuple[str, ...]
    std: tuple[float, ...]
    """Of each action dimension, raw units."""
    variance: float
    """Mean squared error of always answering with the mean chunk, raw units."""
    samples: tuple[tuple[tuple[float, ...], ...], ...]
    """Held-out chunks that are shown with their reconstructions, raw units, rounded."""
    settings: dict[str, Any]
    """What decides the result, and so must be the same when a comparison goes on."""
    steps: dict[str, int]
    """Training steps of each kind that was begun, 0 where it is fitted."""
    kinds: tuple[KindComparison, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    """What was typed last."""
    schema: str = "oatkit/tokenizer-comparison"
    version: int = 1


@dataclass(frozen=True)
class PolicySlot:
    """How well a policy predicts one token slot, given the true tokens before its block."""

    share: float
    """Of the sequences that reach the slot; the end symbol counts as a token."""
    accuracy: float
    """Share of tokens that are the likeliest."""
    entropy_bits: float
    """Mean uncertainty of the policy."""
    loss_bits: float
    """Mean surprise at the true token."""


@dataclass(frozen=True)
class PolicyBudget:
    """Errors of sampled chunks at one budget, raw units."""

    budget: int | None
    """None where the policy itself decided when to stop."""
    tokens: float
    """Mean number of tokens that were decoded."""
    calls: float
    """Mean number of stages."""
    mse: float | None
    """Mean squared error, repeated tail steps counted; None where nothing decodes."""
    mse_without_padding: float | None
    tokenizer_mse: float
    """What is left when the tokens are the true ones."""
    mae: tuple[float, ...]
    """Of each dimension; empty where nothing decodes."""


@dataclass(frozen=True)
class PolicyMeasurement:
    """What `oatkit policy measure` finds, without a simulator."""

    path: str
    kind: str
    """Of the tokenizer."""
    data: str
    split: str
    num_chunks: int
    num_parameters: int
    loss: float
    """The training loss on these chunks, nats."""
    slots: tuple[PolicySlot, ...]
    budgets: tuple[PolicyBudget, ...]
    auto: PolicyBudget | None
    """With `budget="auto"`, where thresholds are known."""
    invalid: float
    """Share of sampled sequences that do not decode."""
    variance: tuple[float | None, ...]
    """Of each dimension of the predicted actions over that of the true ones, at the full budget:
    near 0 where the policy repeats itself, None where the true ones are constant, empty where
    nothing decodes."""
    schema: str = "oatkit/policy-measurement"
    version: int = 1


@dataclass(frozen=True)
class Invariant:
    """Something that must hold for a policy whatever its weights."""

    name: str
    holds: bool
    value: float
    """The largest difference or gradient that was found."""


@dataclass(frozen=True)
class BackboneCheck:
    """What `oatkit vlm check` finds of a backbone."""

    checkpoint: str
    family: str
    num_parameters: int
    num_trained: int
    context_slots: int
    train_s: float
    """One training step with a batch of 2."""
    train_bytes: int
    """Most memory in use by then: of the device, or of this process on a CPU."""
    prefill_ms: float
    suffix_ms: float
    """One call of generation."""
    invariants: tuple[Invariant, ...]
    schema: str = "oatkit/backbone-check"
    version: int = 1


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
    budget: int | None
    """None for "auto"."""
    episode: int
    seed: int
    """What the simulator was reset with: the same for every policy and budget."""
    is_success: bool
    """Solved at any step; the episode ends there."""
    score: float | None
    """The best of any step, where the simulator grades; 0 to 1."""
    steps: int
    queries: int
    """How often the policy was asked for a chunk."""
    calls: float
    """Mean stages of a query."""
    tokens: float
    """Mean number of tokens that were decoded in a query."""
    latency_ms: float
    """Mean time of a query, from observation to chunk, shared by the episodes it was made for."""
    clipped: float
    """Share of the executed actions that lay outside the simulator's bounds and were clipped."""
    repeats: int
    """How often it was begun anew because its worker process died."""
    error: str | None
    """Why the policy had no chunk to give, which ends the episode without success."""


@dataclass(frozen=True)
class TaskResult:
    """One task at one budget."""

    task: str
    success: SuccessRate
    score: float | None
    """Mean of the episodes' best."""


@dataclass(frozen=True)
class BudgetResult:
    """All tasks at one budget."""

    budget: int | None
    """None for "auto"."""
    tasks: tuple[TaskResult, ...]
    success: SuccessRate
    """Of all episodes together."""
    mean_success: float
    """Of the tasks, each counted the same."""
    score: float | None
    steps: float
    """Mean of an episode."""
    calls: float
    """Mean stages of a query."""
    tokens: float
    """Mean number of tokens that were decoded in a query."""
    latency_ms: float | None
    """Median time of a query for one observation alone, measured apart from the episodes."""


@dataclass(frozen=True)
class PairedComparison:
    """Two policies or budgets on the same episodes."""

    first: str
    second: str
    episodes: int
    only_first: int
    """Episodes that only the first solved."""
    only_second: int
    difference: float
    """Success rate of the second less that of the first."""
    low: float
    """95 % interval of the difference (Newcombe's for paired proportions)."""
    high: float
    p_value: float
    """Exact McNemar test, two-sided: how likely so uneven a split is if both are equally good."""


@dataclass(frozen=True)
class EpisodeVideo:
    """Where the film of an episode is."""

    task: str
    budget: int | None
    """None for "auto"."""
    episode: int
    path: str
    """Below the folder of the record."""


@dataclass(frozen=True)
class PolicyEvaluation:
    """What `oatkit policy eval` finds."""

    policy: str
    kind: str
    """Of the tokenizer."""
    settings: dict[str, Any]
    """The protocol: what decides an episode, and so must be the same when an evaluation goes on."""
    versions: dict[str, str]
    command: str = ""
    """What was typed last."""
    worker_deaths: int = 0
    """Worker processes that died and were started again."""
    worker_hangs: int = 0
    """Worker processes that did not answer, were killed and started again."""
    seconds: float = 0.0
    latencies_ms: dict[str, float | None] = field(default_factory=dict)
    """Budget to the median time of a query for one observation alone."""
    episodes: tuple[EpisodeResult, ...] = ()
    budgets: tuple[BudgetResult, ...] = ()
    comparisons: tuple[PairedComparison, ...] = ()
    videos: tuple[EpisodeVideo, ...] = ()
    schema: str = "oatkit/policy-evaluation"
    version: int = 1


@dataclass(frozen=True)
class DemoStage:
    """One part of the demo."""

    name: str
    command: str
    """What does the same by hand."""
    seconds: float
    """Over all runs that it took."""
    is_done: bool


@dataclass(frozen=True)
class DemoRecord:
    """What `oatkit demo` did; its results are in the records of its parts."""

    settings: dict[str, Any]
    """What decides the demo, and so must be the same when it goes on."""
    versions: dict[str, str]
    machine: str
    num_episodes: int = 0
    """Demonstrations."""
    num_frames: int = 0
    policy_steps: int = 0
    """Training steps of the policy, decided once; 0 before that."""
    stages: tuple[DemoStage, ...] = ()
    schema: str = "oatkit/demo"
    version: int = 1


@dataclass(frozen=True)
class LabTokens:
    """A tokenizer's answer to a chunk in the prefix lab."""

    name: str
    kind: str
    ids: tuple[int, ...]
    """With the edits."""
    encoded_ids: tuple[int, ...]
    """Without."""
    tokens: int
    """How many of the ids were decoded."""
    bits: float
    mse: float | None
    """Raw units; None where the ids do not decode."""
    actions: tuple[tuple[float, ...], ...] | None
    """(T, A) decoded."""
    error: str | None
    """Why they do not decode."""


@dataclass(frozen=True)
class LabChunk:
    """What the prefix lab downloads."""

    data: str
    episode: int
    """What the files call it."""
    frame: int
    dimensions: tuple[str, ...]
    actions: tuple[tuple[float, ...], ...]
    """(T, A) the truth."""
    tokenizers: tuple[LabTokens, ...]
    schema: str = "oatkit/lab-chunk"
    version: int = 1


Ablation = Literal["levels", "horizons", "nesting"]


@dataclass(frozen=True)
class SweepRow:
    """One trained tokenizer of a sweep."""

    ablation: Ablation
    levels: tuple[int, ...]
    horizon: int
    num_tokens: int
    nested_dropout: bool
    vocab_size: int
    num_parameters: int
    seconds: float
    """Time of training."""
    budgets: tuple[BudgetMeasurement, ...]


@dataclass(frozen=True)
class TokenizerSweep:
    """What `oatkit tokenizer sweep` finds."""

    data: str
    settings: dict[str, Any]
    """What decides the result, and so must be the same when a sweep goes on."""
    rows: tuple[SweepRow, ...] = ()
    schema: str = "oatkit/tokenizer-sweep"
    version: int = 1


PolicyAblation = Literal["horizons-half", "horizons-fixed", "levels"]


@dataclass(frozen=True)
class PolicySweepRow:
    """One evaluated policy of a sweep."""

    ablation: PolicyAblation
    execute: int
    """Steps of a chunk that were executed before the next query."""
    horizon: int
    num_tokens: int
    levels: tuple[int, ...]
    vocab_size: int
    num_parameters: int
    """Of the policy."""
    seconds: float
    """Time of the policy's training."""
    result: BudgetResult
    """With all tokens."""


@dataclass(frozen=True)
class PolicySweep:
    """What `oatkit policy sweep` finds."""

    data: str
    settings: dict[str, Any]
    """What decides the result, and so must be the same when a sweep goes on."""
    rows: tuple[PolicySweepRow, ...] = ()
    schema: str = "oatkit/policy-sweep"
    version: int = 1


def record_from_json(kind: type[Record], value: Any) -> Record:
    """A result record from its JSON: the inverse of `json.dumps(asdict(record))`."""
    return _from_json(kind, value)


def _from_json(hint: Any, value: Any) -> Any:
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: _from_json(hints[name], v) for name, v in value.items()})  # type: ignore[operator]
    if get_origin(hint) is tuple:
        return tuple(_from_json(get_args(hint)[0], v) for v in value)
    if get_origin(hint) is UnionType and value is not None:
        (inner,) = (part for part in get_args(hint) if part is not NoneType)
        return _from_json(inner, value)
    return value
