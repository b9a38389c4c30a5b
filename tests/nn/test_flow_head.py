"""The flow head: draws share a context, steps read each other, and rows do not."""

from __future__ import annotations

import pytest
import torch

from oatkit.nn.flow import euler_times
from oatkit.nn.flow_head import FlowHead
from oatkit.nn.sample_random import SampleRandom

HORIZON, ACTION_DIM, WIDTH, NUM_CONTEXT = 6, 2, 16, 5


@pytest.fixture
def head() -> FlowHead:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "num_layers": 2, "num_heads": 2}
    return FlowHead(HORIZON, ACTION_DIM, **sizes, dropout=0.5)


def rows(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Noisy actions, times and sources of contexts."""
    torch.manual_seed(1)
    noisy_RTA = torch.randn(count, HORIZON, ACTION_DIM)
    return noisy_RTA, torch.rand(count), torch.randn(count, NUM_CONTEXT, WIDTH)


def test_draws_of_a_sample_are_rows_of_their_own(head: FlowHead) -> None:
    noisy_RTA, time_R, source_BSD = rows(6)
    source_BSD = source_BSD[:2]
    together = head(noisy_RTA, head.encode_time(time_R), head.keys_values(source_BSD))
    for row in range(6):
        context = head.keys_values(source_BSD[row // 3 : row // 3 + 1])
        part = slice(row, row + 1)
        alone = head(noisy_RTA[part], head.encode_time(time_R[part]), context)
        torch.testing.assert_close(alone[0], together[row])


def test_everything_that_is_read_matters(head: FlowHead) -> None:
    noisy_RTA, time_R, source_BSD = rows(1)

    def velocity(noisy: torch.Tensor, time: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = head(noisy, head.encode_time(time), head.keys_values(source))
        return found

    wanted = velocity(noisy_RTA, time_R, source_BSD)
    later = noisy_RTA.clone()
    later[:, -1] += 1
    assert (velocity(later, time_R, source_BSD)[0, 0] != wanted[0, 0]).any(), "a later step"
    assert (velocity(noisy_RTA, time_R + 0.1, source_BSD) != wanted).all()
    assert (velocity(noisy_RTA, time_R, source_BSD + 1) != wanted).any()
    same = torch.zeros_like(noisy_RTA)
    steps = velocity(same, time_R, source_BSD)[0]
    assert len(steps.unique(dim=0)) == HORIZON, "equal actions are told apart by their positions"


def test_dropout_belongs_to_the_sample(head: FlowHead) -> None:
    noisy_RTA, time_R, source_BSD = rows(4)
    keys = torch.tensor([7, 8])
    time_RD = head.encode_time(time_R)

    def dropped(part: slice, samples: slice) -> torch.Tensor:
        context = head.keys_values(source_BSD[:2][samples])
        found: torch.Tensor = head(
            noisy_RTA[part], time_RD[part], context, SampleRandom(keys[samples])
        )
        return found

    together = dropped(slice(4), slice(2))
    torch.testing.assert_close(dropped(slice(2, 4), slice(1, 2)), together[2:])
    plain = head(noisy_RTA, time_RD, head.keys_values(source_BSD[:2]))
    assert (together != plain).any()


@pytest.mark.parametrize("num_steps", [1, 2, 5, 10])
def test_integrating_is_euler_steps(head: FlowHead, num_steps: int) -> None:
    noise_BTA, _, source_BSD = rows(2)
    context = head.keys_values(source_BSD)
    found = head.integrate(noise_BTA, context, num_steps)
    point = noise_BTA
    with torch.no_grad():
        for time in euler_times(num_steps):
            time_BD = head.encode_time(torch.full((2,), time))
            point = point - head(point, time_BD, context) / num_steps
    torch.testing.assert_close(found, point)
    assert not found.requires_grad


def test_half_precision_keeps_the_sums_in_float32(head: FlowHead) -> None:
    noise_BTA, _, source_BSD = rows(2)
    wanted = head.integrate(noise_BTA, head.keys_values(source_BSD), 5)
    half = head.to(torch.bfloat16)
    context = half.keys_values(source_BSD.to(torch.bfloat16))
    found = half.integrate(noise_BTA, context, 5)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, atol=0.1, rtol=0.1)
