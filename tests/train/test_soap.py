"""SOAP: plain Adam on vectors, its own coordinates on matrices."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from oatkit.train.soap import Soap, as_matrix, turn_back


def descend(optimizer: torch.optim.Optimizer, weight: nn.Parameter, curvature: Tensor) -> float:
    """100 ever smaller steps down a quadratic whose axes are not those of the coordinates."""
    for step in range(100):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 - step / 100)
        loss = ((curvature @ weight) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def test_it_goes_down_a_turned_valley_faster_than_adamw() -> None:
    generator = torch.Generator().manual_seed(2)
    basis, _ = torch.linalg.qr(torch.randn(12, 12, generator=generator))
    curvature = torch.logspace(0, -2, 12)[:, None] * basis
    start = torch.randn(12, 5, generator=generator)
    ends = []
    for kind in (Soap, torch.optim.AdamW):
        weight = nn.Parameter(start.clone())
        ends.append(descend(kind([weight], lr=0.1, weight_decay=0.0), weight, curvature))
    assert ends[0] < 0.5 * ends[1]


def test_a_vector_gets_adam() -> None:
    """From the second gradient on: the first one only begins the state."""
    ours, theirs = (nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) for _ in range(2))
    betas = (0.9, 0.99)
    soap = Soap([ours], lr=0.1, betas=betas, weight_decay=0.01)
    adamw = torch.optim.AdamW([theirs], lr=0.1, betas=betas, weight_decay=0.01)
    generator = torch.Generator().manual_seed(0)
    for step in range(12):
        grad = torch.randn(3, generator=generator)
        for parameter, optimizer in ((ours, soap), (theirs, adamw)):
            parameter.grad = grad.clone()
            if step > 0 or optimizer is soap:
                optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_bases_stay_orthogonal_and_find_the_strong_direction() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.zeros(6, 4))
    soap = Soap([weight], lr=0.1, refresh=2)
    strong = torch.nn.functional.normalize(torch.randn(6, generator=generator), dim=0)
    for _ in range(40):
        amounts = torch.randn(4, generator=generator)
        noise = 0.1 * torch.randn(6, 4, generator=generator)
        weight.grad = strong[:, None] * amounts + noise
        soap.step()
    state = soap.state[weight]
    for side, size in (("left", 6), ("right", 4)):
        basis = state[f"{side}_basis"]
        torch.testing.assert_close(basis.T @ basis, torch.eye(size), rtol=0, atol=1e-5)
    assert abs(float(state["left_basis"][:, 0] @ strong)) > 0.99


@pytest.mark.parametrize(
    ("shape", "matrix", "sides"),
    [
        ((), (1, 1), set()),
        ((5,), (1, 5), set()),
        ((1, 4, 3), (4, 3), {"left", "right"}),
        ((8, 3, 2), (24, 2), {"right"}),
    ],
)
def test_sides(shape: tuple[int, ...], matrix: tuple[int, int], sides: set[str]) -> None:
    weight = nn.Parameter(torch.randn(shape))
    assert as_matrix(weight).shape == matrix
    soap = Soap([weight], lr=0.1, largest_side=10)
    weight.grad = torch.randn(shape)
    soap.step()
    assert {"left", "right"} & soap.state[weight].keys() == sides
    soap.step()
    assert torch.isfinite(weight).all()


@pytest.mark.parametrize("rank", [1, 8, 16])
def test_gradients_of_few_rows_and_directions(rank: int) -> None:
    """Their covariances have hundreds of equal eigenvalues, which float32 cannot take apart."""
    for seed, scale in itertools.product(range(4), (1e-2, 1e-3, 1e-5)):
        generator = torch.Generator().manual_seed(seed)
        rows, columns = (torch.randn(n, generator=generator) for n in ((256, rank), (rank, 64)))
        slope = rows @ columns * (torch.rand(256, 1, generator=generator) > 0.5)
        weight = nn.Parameter(torch.zeros(256, 64))
        optimizer = Soap([weight], lr=1e-2)
        for _ in range(3):
            weight.grad = scale * slope
            optimizer.step()
        assert weight.isfinite().all()
        assert weight.mul(slope).sum() < 0


def slow_steps(
    start: Tensor, grads: list[Tensor], *, lr: float, betas: tuple[float, float], refresh: int
) -> Tensor:
    """SOAP of one matrix with the first moment in the coordinates of the weights, turned anew at
    every step, as the paper writes it."""
    weight, mean, square = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    decay, slow_decay = betas
    covariances = [(1 - slow_decay) * g for g in (grads[0] @ grads[0].T, grads[0].T @ grads[0])]
    left, right = (torch.linalg.eigh(c)[1] for c in covariances)
    for step, grad in enumerate(grads[1:], start=1):
        mean = decay * mean + (1 - decay) * grad
        square = slow_decay * square + (1 - slow_decay) * (left.T @ grad @ right) ** 2
        scale = (square / (1 - slow_decay**step)).sqrt() + 1e-8
        turned = left.T @ mean @ right / (1 - decay**step)
        weight = weight - lr * left @ (turned / scale) @ right.T
        new = (grad @ grad.T, grad.T @ grad)
        covariances = [
            slow_decay * c + (1 - slow_decay) * n for c, n in zip(covariances, new, strict=True)
        ]
        if step % refresh == 0:
            for axis, basis in enumerate((left, right)):
                image = covariances[axis] @ basis
                order = (basis * image).sum(0).argsort(descending=True, stable=True)
                square = square.index_select(axis, order)
                turned_basis = torch.linalg.qr(image[:, order])[0]
                left, right = (turned_basis, right) if axis == 0 else (left, turned_basis)
    return weight


def random_grads(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(7, 4, generator=generator, dtype=torch.float64) for _ in range(count)]


HOW = {"lr": 0.05, "betas": (0.9, 0.95), "refresh": 3}


def test_a_mean_that_turns_with_the_bases_is_the_mean_turned_at_every_step() -> None:
    grads = random_grads(20)
    weight = nn.Parameter(torch.ones(7, 4, dtype=torch.float64))
    soap = Soap([weight], **HOW)
    for grad in grads:
        weight.grad = grad.clone()
        soap.step()
    wanted = slow_steps(torch.ones(7, 4, dtype=torch.float64), grads, **HOW)
    torch.testing.assert_close(weight.detach(), wanted)


def test_a_checkpoint_with_the_mean_in_the_coordinates_of_the_weights_goes_on() -> None:
    grads, ends = random_grads(20), []
    for is_old in (False, True):
        weight = nn.Parameter(torch.ones(7, 4, dtype=torch.float64))
        soap = Soap([weight], **HOW)
        for number, grad in enumerate(grads):
            if is_old and number == 11:
                state = soap.state[weight]
                state["mean"] = turn_back(state.pop("turned_mean"), state)
            weight.grad = grad.clone()
            soap.step()
        ends.append(weight.detach())
    torch.testing.assert_close(ends[0], ends[1])
