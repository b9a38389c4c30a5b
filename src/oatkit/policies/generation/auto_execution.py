"""How many steps of a chunk are worth executing, as the policy itself finds: `execute="auto"`.

The error of a chunk grows with its steps, faster where the policy is unsure. Held-out observations
show how fast: their chunks are sorted into bins by the mean entropy of their tokens, and the error
of each step is averaged in each bin. A chunk is executed up to the last step whose expected error
is no more than that of first steps on average, and for two to four steps, of chunks longer than 32
a sixteenth to an eighth: what demonstrations cannot show is how far a robot drifts that executes a
chunk blindly.

Shape letters: B batch, T step in the chunk, A action dimension, K token slot, C bin of entropy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer

LEAST_STEPS, LEAST_PART = 2, 16
"""Steps of a chunk that are executed at least, or a sixteenth of it where that is more; the error
of first steps is the mean over these."""
MOST_STEPS, LARGEST_PART = 4, 8
"""Steps of a chunk that are executed at most, or an eighth of it where that is more."""
NUM_BINS = 4
MIN_ROWS = 16
"""Smallest number of held-out chunks in a bin, where there are several."""


class ChunkSource(Protocol):
    """A policy as its table is calibrated."""

    @property
    def tokenizer(self) -> ActionTokenizer:
        """The tokenizer, which says what a normalized unit is."""

    @property
    def rows_at_once(self) -> int:
        """Number of observations that fit in memory together."""

    def generate_once(
        self, observations: Observations, generator: Generators = None
    ) -> GeneratedChunks:
        """Predict once with the default settings, without retrying."""


@dataclass(frozen=True)
class AutoExecution:
    """A table of the expected error of each step of a chunk, by entropy of its tokens."""

    entropy_bits: tuple[float, ...]
    """Mean entropy of a chunk's tokens up to which it belongs to each bin but the last."""
    error: tuple[tuple[float, ...], ...]
    """Expected error of each step in each bin, normalized units; it never falls with the steps."""

    @classmethod
    def fit(cls, entropy_B: NDArray[np.float64], error_BT: NDArray[np.float64]) -> AutoExecution:
        """The table of held-out chunks.

        Args:
            entropy_B: Mean entropy of each chunk's tokens, in bits.
            error_BT: Error of each step of each chunk, normalized units.
        """
        num_bins = min(NUM_BINS, max(1, len(entropy_B) // MIN_ROWS))
        shares = np.arange(1, num_bins) / num_bins
        edges = np.unique(np.quantile(entropy_B, shares, method="inverted_cdf"))
        edges = edges[edges < entropy_B.max()]
        bin_B = np.searchsorted(edges, entropy_B)
        means = [error_BT[bin_B == index].mean(axis=0) for index in range(len(edges) + 1)]
        error_CT = np.maximum.accumulate(np.stack(means), axis=1)
        return cls(tuple(edges.tolist()), tuple(tuple(row) for row in error_CT.tolist()))

    @property
    def bin_steps(self) -> tuple[int, ...]:
        """Number of steps to execute of a chunk of each bin."""
        error_CT = np.asarray(self.error)
        least, most = step_bounds(error_CT.shape[1])
        steps_C = (error_CT <= error_CT[:, :least].mean()).sum(axis=1)
        return tuple(steps_C.clip(least, most).tolist())

    def steps(self, entropy_B: Tensor) -> Tensor:
        """Number of steps to execute of each chunk, (B,) int64.

        Args:
            entropy_B: Mean entropy of each chunk's tokens, in bits.
        """
        bin_B = torch.bucketize(entropy_B, entropy_B.new_tensor(self.entropy_bits))
        return torch.tensor(self.bin_steps, device=entropy_B.device)[bin_B]

    def summary(self) -> dict[str, Any]:
        """The bins with their steps alone, as exported policies hold them."""
        return {"entropy_bits": list(self.entropy_bits), "steps": list(self.bin_steps)}

    def to_json(self) -> dict[str, Any]:
        return {"entropy_bits": list(self.entropy_bits), "error": [list(row) for row in self.error]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> AutoExecution:
        error = tuple(tuple(row) for row in values["error"])
        return cls(tuple(values["entropy_bits"]), error)


def step_bounds(horizon: int) -> tuple[int, int]:
    """Numbers of steps that are executed at least and at most of a chunk of so many."""
    least, most = max(LEAST_STEPS, horizon // LEAST_PART), max(MOST_STEPS, horizon // LARGEST_PART)
    return min(least, horizon), min(most, horizon)


def mean_entropy(generated: GeneratedChunks) -> Tensor:
    """Mean entropy of the tokens that each chunk was decoded from, (B,); 0 where it has none."""
    entropy_BK, lengths_B = generated.entropy_bits, generated.tokens.lengths
    slots_K = torch.arange(entropy_BK.shape[1], device=entropy_BK.device)
    is_decoded_BK = slots_K < lengths_B[:, None]
    return (entropy_BK * is_decoded_BK).sum(dim=1) / lengths_B.clamp(min=1)


def calibrate_execution(
    policy: ChunkSource,
    observations: Observations,
    actions_BTA: Tensor,
    generator: Generators = None,
) -> AutoExecution | None:
    """The table of a policy from held-out observations; None where none of its chunks decodes.

    Args:
        policy: Predicts the chunks.
        observations: Held-out observations.
        actions_BTA: Raw actions that follow them.
        generator: Random numbers of the chunks.
    """
    entropies, errors = [], []
    scale_A = torch.from_numpy(policy.tokenizer.raw_normalizer.scale)
    wanted = torch.split(actions_BTA, policy.rows_at_once)
    for block, wanted_BTA in zip(observations.split(policy.rows_at_once), wanted, strict=True):
        generated = policy.generate_once(block, generator)
        off_BTA = (generated.chunk.cpu() - wanted_BTA.cpu()).double() / scale_A
        entropies.append(mean_entropy(generated).cpu().double())
        errors.append(off_BTA.square().mean(dim=2).sqrt())
    error_BT = torch.cat(errors).numpy()
    is_decoded_B = np.isfinite(error_BT).all(axis=1)
    if not is_decoded_B.any():
        return None
    return AutoExecution.fit(torch.cat(entropies).numpy()[is_decoded_B], error_BT[is_decoded_B])
