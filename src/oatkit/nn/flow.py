"""Flow matching: noise becomes data along straight lines.

    x_tau = tau * noise + (1 - tau) * data,   velocity = noise - data,   tau from 1 (noise) to 0

Training prefers noisy times: tau = 0.001 + 0.999 u with u ~ Beta(1.5, 1).

Shape letters: B batch; any axes may follow it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

SMALLEST_TIME = 0.001
TIME_POWER = 1.5


def flow_times(uniform_B: Tensor) -> Tensor:
    """Training times (B,) of uniform numbers: the distribution function of Beta(a, 1) is u^a."""
    return SMALLEST_TIME + (1 - SMALLEST_TIME) * uniform_B ** (1 / TIME_POWER)


def add_noise(data: Tensor, noise: Tensor, time_B: Tensor) -> tuple[Tensor, Tensor]:
    """The point between data and noise at a time, and its velocity."""
    time = time_B.view(-1, *[1] * (data.ndim - 1))
    return time * noise + (1 - time) * data, noise - data


def euler_times(num_steps: int) -> list[float]:
    """Times at which equal Euler steps from noise to data begin."""
    return [1 - step / num_steps for step in range(num_steps)]


def integrate(velocity: Callable[[Tensor, int], Tensor], noise: Tensor, num_steps: int) -> Tensor:
    """Data (B, ...) at time 0, reached from noise at time 1 in equal Euler steps.

    Args:
        velocity: Function of points (B, ...) and the number of the step, whose time is that of
            `euler_times`, that gives velocities (B, ...).
        noise: Points (B, ...) at time 1.
        num_steps: Number of Euler steps.
    """
    point = noise
    for step in range(num_steps):
        point = point - velocity(point, step) / num_steps
    return point
