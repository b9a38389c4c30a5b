"""Flow matching: noise becomes data along straight lines.

    x_tau = tau * noise + (1 - tau) * data,   velocity = noise - data,   tau from 1 (noise) to 0

Flow times are mostly noisy: tau = 0.001 + 0.999 u with u ~ Beta(1.5, 1).

Shape letters: B batch, and any axes after it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SMALLEST_TIME = 0.001
TIME_POWER = 1.5


def flow_times(uniform_B: Tensor) -> Tensor:
    """Times of training from uniform numbers: Beta(a, 1) has the distribution function u^a."""
    return SMALLEST_TIME + (1 - SMALLEST_TIME) * uniform_B ** (1 / TIME_POWER)


def noised(data: Tensor, noise: Tensor, time_B: Tensor) -> tuple[Tensor, Tensor]:
    """The point on the way from data to noise, and its velocity."""
    time = time_B.view(-1, *[1] * (data.ndim - 1))
    return time * noise + (1 - time) * data, noise - data


def integrate(
    velocity: Callable[[Tensor, Tensor], Tensor], noise: Tensor, num_steps: int
) -> Tensor:
    """From noise at time 1 to data at time 0 in equal Euler steps.

    Args:
        velocity: Of points (B, ...) at times (B,).
        noise: (B, ...).
        num_steps: How many.
    """
    point = noise
    for step in range(num_steps):
        time_B = torch.full((len(point),), 1 - step / num_steps, device=point.device)
        point = point - velocity(point, time_B) / num_steps
    return point
