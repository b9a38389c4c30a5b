"""What is found about tokenizers, as it is written to JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from oatkit.types.policy_records import PolicyMeasurement


@dataclass(frozen=True)
class BudgetMeasurement:
    """Rate and distortion at one budget, over held-out chunks."""

    budget: int
    """Number of leading tokens that were kept; 0 decodes masks only."""
    is_trained: bool
    """Whether this budget had direct supervision."""
    tokens: float
    """Mean number of tokens; less than the budget only where lengths vary."""
    bits: float
    """Bits of the tokens: tokens * log2(vocabulary)."""
    entropy_bits: float
    """Entropy of the ids that occur in each kept slot, summed over the slots, each weighted by the
    share of sequences that reach it."""
    mse: float
    """Mean squared error in raw units, repeated tail steps counted."""
    mse_without_padding: float
    """The same without the steps past an episode's end."""
    mse_normalized: float
    gaussian_mse: float
    """Mean squared error of an ideal linear code of a Gaussian source at these bits, raw units."""
    mae: tuple[float, ...]
    """Mean absolute error of each dimension, raw units."""
    worst: tuple[float, ...]
    """Largest absolute error of each dimension, raw units."""
    jerk_ratio: float
    """Mean squared third difference of decoded over true chunks; 1 is as smooth."""
    more: dict[str, float] = field(default_factory=dict)
    """Further metrics by their names in `oatkit.measure.metric_table.METRICS`."""


@dataclass(frozen=True)
class SlotMeasurement:
    """How one token slot uses the vocabulary."""

    usage: float
    """Share of the vocabulary that occurs."""
    perplexity: float
    """Two to the power of the entropy of its ids."""


@dataclass(frozen=True)
class Robustness:
    """How decoding copes with ids that no encoder gives."""

    random_finite: float
    """Share of random sequences that decode to finite chunks."""
    random_undecodable: float
    """Share of random sequences that does not decode at all."""
    corrupted_finite: float
    """Share of real sequences with one random token that decode to finite chunks."""
    corrupted_undecodable: float
    corrupted_mse: float | None
    """Mean squared change of the chunks that decode, raw units; None where none does."""


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
    version: int = 2


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
    """How information spreads over the tokens of an ordered kind, in normalized units.

    The paper's identity is `expected_error = errors[0] - sum of survival * gains`.
    """

    budgets: tuple[int, ...]
    """Budgets that training samples K from, all equally likely."""
    errors: tuple[float, ...]
    """Mean squared error with 0, 1, .. num_tokens tokens kept: epsilon(0), epsilon(1) .."""
    gains: tuple[float, ...]
    """Reduction of the error by each further token: Delta_1 .."""
    survival: tuple[float, ...]
    """How often training keeps each token: w_1 .., w_i = Pr(K >= i)."""
    expected_error: float
    """Mean error over K, by decoding every chunk at every K: E_K[epsilon(K)]."""
    expanded_error: float
    """Right side of the identity, from the gains and the survival weights."""


@dataclass(frozen=True)
class Reconstruction:
    """A sample chunk decoded from its first tokens."""

    sample: int
    """Index of the sample in the comparison."""
    budget: int
    actions: tuple[tuple[float, ...], ...]
    """Steps of the chunk, raw units, rounded."""


@dataclass(frozen=True)
class LossPoint:
    """The training loss at a step."""

    step: int
    loss: float


@dataclass(frozen=True)
class KindComparison:
    """One kind in a comparison."""

    measurement: TokenizerMeasurement
    properties: Properties
    allocation: Allocation | None
    """How information spreads over the tokens; None for kinds that do not decode prefixes."""
    reconstructions: tuple[Reconstruction, ...]
    """Samples decoded at several budgets; empty for kinds that do not decode prefixes."""
    seconds: float
    """Time of training or fitting."""
    losses: tuple[LossPoint, ...]
    """Training losses, thinned out; empty where nothing is trained."""
    policy: PolicyMeasurement | None = None
    """What a small policy that was trained on its tokens makes of held-out episodes; None where
    none was."""


@dataclass(frozen=True)
class RepresentationMeasurement:
    """A kind on the same actions in one of several representations."""

    actions: str
    """How they are represented, as it was typed."""
    measurement: TokenizerMeasurement


@dataclass(frozen=True)
class TokenizerComparison:
    """What `oatkit tokenizer compare` finds."""

    data: str
    num_episodes: int
    """Number of held-out episodes, on which everything is measured."""
    dimensions: tuple[str, ...]
    std: tuple[float, ...]
    """Standard deviation of each action dimension, raw units."""
    variance: float
    """Mean squared error of always answering with the mean chunk, raw units."""
    samples: tuple[tuple[tuple[float, ...], ...], ...]
    """Held-out chunks that are shown with their reconstructions, raw units, rounded."""
    settings: dict[str, Any]
    """Everything that decides the result, which must be the same when a comparison goes on."""
    steps: dict[str, int]
    """Number of training steps of each kind that was begun; 0 for kinds that are not learned."""
    kinds: tuple[KindComparison, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    """Command line that was typed last."""
    policy_minutes: float | None = None
    """Training time that each policy was given; None where no policy was trained."""
    policy_steps: int = 0
    """Number of training steps of every policy."""
    sample_states: tuple[tuple[float, ...], ...] = ()
    """States at which the samples start, raw units, rounded; none where there is no state."""
    representations: tuple[RepresentationMeasurement, ...] = ()
    """Kinds that are fitted, in other representations of the actions."""
    schema: str = "oatkit/tokenizer-comparison"
    version: int = 4


@dataclass(frozen=True)
class LabTokens:
    """A tokenizer's answer to a chunk in the prefix lab."""

    name: str
    kind: str
    ids: tuple[int, ...]
    """Ids of the chunk, with the edits of the user."""
    encoded_ids: tuple[int, ...]
    """Ids of the chunk, without the edits."""
    tokens: int
    """Number of leading ids that were decoded."""
    bits: float
    mse: float | None
    """Mean squared error, raw units; None where the ids do not decode."""
    actions: tuple[tuple[float, ...], ...] | None
    """Decoded chunk, (T, A)."""
    error: str | None
    """Why the ids do not decode."""


@dataclass(frozen=True)
class LabChunk:
    """What the prefix lab downloads."""

    data: str
    episode: int
    """Number of the episode in the files."""
    frame: int
    dimensions: tuple[str, ...]
    actions: tuple[tuple[float, ...], ...]
    """Chunk of the data, (T, A)."""
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
    """Everything that decides the result, which must be the same when a sweep goes on."""
    rows: tuple[SweepRow, ...] = ()
    schema: str = "oatkit/tokenizer-sweep"
    version: int = 2
