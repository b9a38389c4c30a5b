"""How ids are chosen from a model's logits: the one place where sampling rules live.

A new rule is one field of `Sampling` and its lines in `choose`. Commands nest the class without a
prefix, so the field is also the flag; policies, evaluation, server and plugins pass it whole.

Shape letters: B batch, G slot of a stage, V vocabulary, C candidate ids, the likeliest first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


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
    """Seed of the random numbers; None for new ones every time. Every prediction with a seed uses
    the same random numbers; evaluation and serving derive a stream of their own from it."""

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
        """The rules by which a sequence that does not decode is generated again.

        The same rules, but greedy ones would give the same sequence: after those it is sampled at
        temperature 1 from the `top_k` likeliest ids, 10 if that is 1, whatever `top_p` is.
        """
        if not self.is_greedy:
            return self
        top_k = Sampling.top_k if self.top_k == 1 else self.top_k
        return replace(self, temperature=Sampling.temperature, top_k=top_k, top_p=Sampling.top_p)

    def choose(self, logits_BGV: Tensor, uniform_BG: Tensor) -> Tensor:
        """Ids (B, G): the distribution function of the allowed ids, inverted at `uniform_BG`.

        Args:
            logits_BGV: Logits of the model.
            uniform_BG: Random numbers in [0, 1).
        """
        if self.is_greedy:
            return logits_BGV.argmax(dim=-1)
        num_ids = logits_BGV.shape[-1]
        logits_BGC, ids_BGC = logits_BGV.float().topk(min(self.top_k or num_ids, num_ids), dim=-1)
        probability_BGC = (logits_BGC / self.temperature).softmax(dim=-1)
        below_BGC = probability_BGC.cumsum(dim=-1)
        if self.top_p < 1:
            is_kept_BGC = below_BGC - probability_BGC < self.top_p
            below_BGC = (probability_BGC * is_kept_BGC).cumsum(dim=-1)
        goal_BG1 = uniform_BG[..., None] * below_BGC[..., -1:]
        place_BG1 = (below_BGC < goal_BG1).sum(dim=-1, keepdim=True)
        return ids_BGC.gather(-1, place_BG1.clamp(max=ids_BGC.shape[-1] - 1)).squeeze(-1)
