"""Flow matching against what is known of it."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from oatkit.nn.flow import (
    add_noise,
    euler_times,
    flow_matching_loss,
    flow_times,
    integrate,
)
from oatkit.nn.sample_random import SampleRandom


def test_times_follow_the_papers_law() -> None:
    times = flow_times(torch.rand(4000, generator=torch.Generator().manual_seed(0))).numpy()
    assert times.min() >= 0.001
    assert times.max() <= 1
    assert stats.kstest((times - 0.001) / 0.999, stats.beta(1.5, 1).cdf).pvalue > 0.01


def test_points_and_velocities_are_on_straight_lines() -> None:
    data, noise = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    point, velocity = add_noise(data, noise, torch.tensor([0.0, 1.0]))
    assert torch.equal(point[0], data[0])
    assert torch.equal(point[1], noise[1])
    torch.testing.assert_close(velocity, noise - data)


@pytest.mark.parametrize("num_steps", [1, 10])
def test_a_flow_to_one_point_is_reproduced(num_steps: int) -> None:
    """To reach `a` from x at time t the velocity is (x - a) / t: Euler steps are exact."""
    goal, noise = torch.randn(5, 2), torch.randn(5, 2)
    times = euler_times(num_steps)
    found = integrate(lambda x, step: (x - goal) / times[step], noise, num_steps)
    torch.testing.assert_close(found, goal, atol=1e-5, rtol=1e-5)


def test_a_flow_to_a_normal_distribution_is_reproduced() -> None:
    """From N(0, 1) to N(3, 0.5^2): the velocity is linear in x, the map is 3 + 0.5 x."""
    mean, deviation = 3.0, 0.5

    def velocity(x: torch.Tensor, time: float) -> torch.Tensor:
        variance = time**2 + ((1 - time) * deviation) ** 2
        change = (time - (1 - time) * deviation**2) / variance
        return -mean + change * (x - (1 - time) * mean)

    noise = torch.linspace(-2, 2, 9)[:, None]
    wanted = mean + deviation * noise
    errors = []
    for num_steps in (10, 100, 1000):
        times = euler_times(num_steps)
        found = integrate(lambda x, k, t=times: velocity(x, t[k]), noise, num_steps)
        errors.append(float((found - wanted).abs().max()))
    assert errors[0] < 0.2
    assert errors[2] < errors[1] / 5 < errors[0] / 25


def test_the_loss_is_zero_for_the_true_velocity() -> None:
    """The velocity towards a chunk a is (x - a) / t; draws of a sample follow each other."""
    actions_BTA = torch.randn(3, 4, 2)
    keys = torch.arange(3)

    def true_velocity(noisy_RTA: torch.Tensor, time_R: torch.Tensor) -> torch.Tensor:
        data_RTA = actions_BTA.repeat_interleave(5, dim=0)
        return (noisy_RTA - data_RTA) / time_R[:, None, None]

    loss = flow_matching_loss(true_velocity, actions_BTA, SampleRandom(keys), 5)
    assert loss.item() == pytest.approx(0, abs=1e-6)


def test_masked_steps_have_no_error_and_the_others_keep_their_weight() -> None:
    actions_BTA, keys = torch.randn(3, 4, 2), torch.arange(3)
    masked_BT = torch.zeros(3, 4, dtype=torch.bool)

    def loss() -> float:
        def zero(noisy_RTA: torch.Tensor, time_R: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(noisy_RTA)

        return flow_matching_loss(zero, actions_BTA, SampleRandom(keys), 2, masked_BT).item()

    whole, parts = loss(), []
    for step in range(4):
        masked_BT[:] = True
        masked_BT[:, step] = False
        parts.append(loss())
    assert sum(parts) == pytest.approx(whole, rel=1e-5)
    masked_BT[:] = True
    assert loss() == 0
