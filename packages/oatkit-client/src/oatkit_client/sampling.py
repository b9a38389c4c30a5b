"""How ids are chosen from a model's logits, in numpy: the rules of `oatkit.types.Sampling`.

A robot has no torch, so the rules stand here a second time; a test holds both equal.

Shape letters: G slot of a stage, V vocabulary, C candidate ids, the likeliest first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sampling:
    """The sampling rules of a policy; the paper states none, the defaults are ours."""

    temperature: float = 1.0
    """Divisor of the logits; 0 always takes the likeliest id."""
    top_k: int | None = 10
    """Number of likeliest ids to sample from; 0 or None for all."""
    top_p: float = 1.0
    """Probability that the ids to sample from hold together: the fewest likeliest ids that reach
    it; 1 for all."""
    seed: int | None = None
    """Seed of the random numbers, which begin again with every episode; None for new ones every
    time."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature}, expected 0 or more")
        if self.top_k is not None and self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}, expected 0 or more")
        if self.top_k == 0:  # what the command line has for None
            object.__setattr__(self, "top_k", None)
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}, expected more than 0 and at most 1")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}, expected 0 or more, and less than 2**63")

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest id is always taken, so that random numbers play no part."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def for_redraw(self) -> Sampling:
        """The rules of further draws: the same, but greedy ones would give the same chunk again, so
        that after those it is sampled at temperature 1 from the `top_k` likeliest ids, 10 if that
        is 1, whatever `top_p` is."""
        if not self.is_greedy:
            return self
        top_k = Sampling.top_k if self.top_k == 1 else self.top_k
        return replace(self, temperature=Sampling.temperature, top_k=top_k, top_p=Sampling.top_p)

    def choose(self, logits_GV: Any, uniform_G: Any) -> Any:
        """Ids (G,): the distribution function of the allowed ids, inverted at `uniform_G`.

        Args:
            logits_GV: Logits of the model.
            uniform_G: Random numbers in [0, 1).
        """
        if self.is_greedy:
            return logits_GV.argmax(axis=-1)
        num_ids = min(self.top_k or logits_GV.shape[-1], logits_GV.shape[-1])
        ids_GC = np.argsort(-logits_GV, axis=-1, kind="stable")[:, :num_ids]
        logits_GC = np.take_along_axis(logits_GV, ids_GC, axis=-1).astype(np.float32)
        scaled_GC = logits_GC / self.temperature
        weight_GC = np.exp(scaled_GC - scaled_GC[:, :1])
        probability_GC = weight_GC / weight_GC.sum(axis=-1, keepdims=True)
        below_GC = probability_GC.cumsum(axis=-1)
        if self.top_p < 1:
            is_kept_GC = below_GC - probability_GC < self.top_p
            below_GC = (probability_GC * is_kept_GC).cumsum(axis=-1)
        goal_G1 = np.asarray(uniform_G, np.float32)[:, None] * below_GC[:, -1:]
        place_G1 = (below_GC < goal_G1).sum(axis=-1, keepdims=True)
        return np.take_along_axis(ids_GC, np.minimum(place_G1, num_ids - 1), axis=-1)[:, 0]
