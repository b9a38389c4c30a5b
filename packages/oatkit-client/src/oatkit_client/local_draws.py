"""Several chunks of one observation on a robot: their random numbers, and their share of the time.

Shape letters: G slot of a stage, V vocabulary.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Tuple
from zlib import crc32

import numpy as np

from oatkit_client.sampling import Sampling

DrawRule = Tuple[Sampling, np.random.Generator]
"""How a draw is sampled, and its random numbers."""


def count_draws(draws: Any) -> int:
    """Number of draws that are asked for; an error says what is possible."""
    if not isinstance(draws, (int, np.integer)) or isinstance(draws, bool) or draws < 1:
        raise ValueError(f"draws is {draws!r}, expected a whole number from 1 on")
    return int(draws)


def rules_of_draws(sampling: Sampling, rng: np.random.Generator, num_draws: int) -> list[DrawRule]:
    """The rules of each draw, the first as it would be alone.

    The numbers of the others depend on the state of the episode's and are not taken from them.

    Args:
        sampling: How ids are chosen.
        rng: The episode's random numbers.
        num_draws: Number of draws.
    """
    if num_draws == 1:  # as nearly always, and robots wait
        return [(sampling, rng)]
    state = crc32(repr(rng.bit_generator.state).encode())
    others = (np.random.default_rng((state, draw)) for draw in range(1, num_draws))
    return [(sampling, rng), *((sampling.for_redraw, other) for other in others)]


def share_until(deadline: float | None, num_left: int) -> Any:
    """The moment at which the next of so many draws should end, which share the time that is left;
    None without a deadline."""
    if deadline is None:
        return None
    now = time.perf_counter()
    return now + (deadline - now) / num_left


def choice(rule: DrawRule) -> Callable[[Any], list[int]]:
    """The function from a stage's logits (G, V) to its ids."""
    sampling, rng = rule

    def choose(logits_GV: Any) -> list[int]:
        return [int(i) for i in sampling.choose(logits_GV, rng.random(len(logits_GV)))]

    return choose
