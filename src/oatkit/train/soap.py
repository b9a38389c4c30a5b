"""SOAP: Adam in the slowly turning eigenbasis of each matrix's gradients.

    left  L = mean of G G^T      right R = mean of G^T G      (moving averages)
    G' = Q_L^T G Q_R             Adam's moments are those of G', its step is turned back

Vyas et al., "SOAP: Improving and Stabilizing Shampoo using Adam" (2024). The ordered tokenizers
need about a third of AdamW's steps with it, at nearly the same cost a step; see `docs/log.md`. The
first moment stays in the basis and turns with it, which is the same and saves two products a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from oatkit.nn.device import to_float64

LEFT, RIGHT = "left", "right"


class Soap(torch.optim.Optimizer):
    """AdamW whose coordinates are each matrix's own.

    Args:
        params: Parameters to train. Each is taken as a matrix, all but its last axis as rows.
        lr: Learning rate.
        betas: Decay of the first moment, and decay of the second moment and the covariances.
        weight_decay: Decoupled weight decay, as in AdamW.
        eps: Number added to the root of the second moment.
        refresh: Number of steps between turns of the bases.
        largest_side: Longer sides keep their coordinates, and so do vectors: they get plain Adam.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        betas: tuple[float, float] = (0.95, 0.95),
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        refresh: int = 10,
        largest_side: int = 256,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "eps": eps}
        super().__init__(params, {**defaults, "refresh": refresh, "largest_side": largest_side})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        if closure is not None:
            raise ValueError("Soap does not evaluate closures")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, as_matrix(parameter.grad), group)

    def _step(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            # the first gradient only gives the coordinates
            _begin(state, grad, group)
            return
        if "mean" in state:  # a checkpoint of a version that did not keep it turned
            state["turned_mean"] = turn(state.pop("mean"), state)
        step = _count(state)
        decay, second_decay = group["betas"]
        turned = turn(grad, state)
        state["turned_mean"].lerp_(turned, 1 - decay)
        state["square"].lerp_(turned.square_(), 1 - second_decay)
        scale = (state["square"] / (1 - second_decay**step)).sqrt_().add_(group["eps"])
        update = turn_back(state["turned_mean"] / scale, state)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(update.view_as(parameter), alpha=-group["lr"] / (1 - decay**step))
        _learn(state, grad, 1 - second_decay)
        if step % group["refresh"] == 0:
            _refresh(state)


def as_matrix(tensor: Tensor) -> Tensor:
    """A view of a tensor as a matrix; a vector is one row."""
    return tensor.reshape(1, -1) if tensor.ndim < 2 else tensor.flatten(0, -2)


def turn(matrix: Tensor, state: dict[str, Tensor]) -> Tensor:
    """The matrix in the coordinates of the bases, a new tensor."""
    turned = state["left_basis"].T @ matrix if LEFT in state else matrix
    return turned @ state["right_basis"] if RIGHT in state else turned.clone()


def turn_back(matrix: Tensor, state: dict[str, Tensor]) -> Tensor:
    """The inverse of `turn`."""
    turned = state["left_basis"] @ matrix if LEFT in state else matrix
    return turned @ state["right_basis"].T if RIGHT in state else turned


def _begin(state: dict[str, Tensor], grad: Tensor, group: dict[str, Any]) -> None:
    state["step"] = torch.zeros(())
    state["turned_mean"], state["square"] = torch.zeros_like(grad), torch.zeros_like(grad)
    for side, length in ((LEFT, grad.shape[0]), (RIGHT, grad.shape[1])):
        if min(grad.shape) > 1 and length <= group["largest_side"]:
            state[side] = grad.new_zeros(length, length)
    _learn(state, grad, 1 - group["betas"][1])
    for side in (LEFT, RIGHT):
        if side in state:
            # in float64: float32 may fail on a covariance of few directions
            basis = torch.linalg.eigh(to_float64(state[side]))[1]
            state[f"{side}_basis"] = basis.to(grad.device, grad.dtype).contiguous()


def _count(state: dict[str, Tensor]) -> int:
    state["step"] += 1
    return int(state["step"])


def _learn(state: dict[str, Tensor], grad: Tensor, share: float) -> None:
    """Move the covariances towards those of this gradient."""
    if LEFT in state:
        state[LEFT].addmm_(grad, grad.T, beta=1 - share, alpha=share)
    if RIGHT in state:
        state[RIGHT].addmm_(grad.T, grad, beta=1 - share, alpha=share)


def _refresh(state: dict[str, Tensor]) -> None:
    """One power iteration of each basis, the strongest directions first.

    Bases are contiguous, as a checkpoint gives them back: products round by the order in memory.
    """
    for side, axis in ((LEFT, 0), (RIGHT, 1)):
        if side in state:
            basis = state[f"{side}_basis"]
            image = state[side] @ basis
            order = (basis * image).sum(0).argsort(descending=True, stable=True)
            state["square"] = state["square"].index_select(axis, order)
            new_basis = torch.linalg.qr(image[:, order])[0].contiguous()
            old_to_new, mean = new_basis.T @ basis, state["turned_mean"]
            state["turned_mean"] = old_to_new @ mean if side == LEFT else mean @ old_to_new.T
            state[f"{side}_basis"] = new_basis
