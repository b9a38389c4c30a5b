"""Flow matching: noise becomes data along straight lines.

    x_tau = tau * noise + (1 - tau) * data,   velocity = noise - data,   tau from 1 (noise) to 0

Training prefers noisy times: tau = 0.001 + 0.999 u with u ~ Beta(1.5, 1).

Shape letters: B batch; any axes may follow it. R row: a sample with one of its draws, T step in the
chunk, A action dimension.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom

SMALLEST_TIME = 0.001
TIME_POWER = 1.5


def flow_times(uniform_B: Tensor) -> Tensor:
    """Training times (B,) of uniform numbers: the distribution function of Beta(a, 1) is u^a."""
    return SMALLEST_TIME + (1 - SMALLEST_TIME) * uniform_B ** (1 / TIME_POWER)


def add_noise(data: Tensor, noise: Tensor, time_B: Tensor) -> tuple[Tensor, Tensor]:
    """The point between data and noise at a time, and its velocity."""
    time = time_B.view(-1, *[1] * (data.ndim - 1))
    return time * noise + (1 - time) * data, noise - data


def flow_matching_loss(
    velocity: Callable[[Tensor, Tensor], Tensor],
    actions_BTA: Tensor,
    random: SampleRandom,
    num_draws: int,
    masked_BT: Tensor | None = None,
    weight_BA: Tensor | None = None,
) -> Tensor:
    """Mean squared error of the velocity at random times, a scalar.

    Args:
        velocity: Function of noisy actions (R, T, A) and times (R,) that gives velocities
            (R, T, A); the draws of a sample are rows that follow each other.
        actions_BTA: Normalized actions.
        random: Random numbers of the samples.
        num_draws: Number of times and noises for each sample.
        masked_BT: bool, steps whose error counts as zero, so that every other step has the same
            weight in any batch.
        weight_BA: Weight of each dimension of each chunk, 0 for padding, which gets no noise; None
            for 1.
    """
    time_R = flow_times(random.uniform(num_draws)).flatten()
    noise_RTA = random.normal(num_draws, *actions_BTA.shape[1:]).flatten(0, 1)
    if weight_BA is not None:
        weight_R1A = weight_BA.repeat_interleave(num_draws, dim=0)[:, None]
        noise_RTA = noise_RTA * (weight_R1A > 0)
    actions_RTA = actions_BTA.repeat_interleave(num_draws, dim=0)
    noisy_RTA, wanted_RTA = add_noise(actions_RTA, noise_RTA, time_R)
    found_RTA = velocity(noisy_RTA, time_R)
    if masked_BT is not None:
        masked_RT1 = masked_BT.repeat_interleave(num_draws, dim=0)[:, :, None]
        wanted_RTA = torch.where(masked_RT1, found_RTA.detach(), wanted_RTA)
    if weight_BA is not None:
        return ((found_RTA - wanted_RTA).square() * weight_R1A).mean()
    return F.mse_loss(found_RTA, wanted_RTA)


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
