"""Which parameters are trained, and at which learning rate: all alike, or a flow expert apart.

A module that has a flow expert names it `expert`. Only a config that trains it otherwise than the
rest makes two groups; so all else is trained as one.
"""

from __future__ import annotations

import torch
from torch import nn

from oatkit.errors import TrainingError
from oatkit.train.optimizers import OPTIMIZERS
from oatkit.train.train_config import TrainConfig

EXPERT = "is_expert"
"""Entry of an optimizer's group that says whether its learning rate is the expert's."""


def make_optimizer(module: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of a module's parameters; those that are frozen are left out."""
    groups = [(is_expert, group) for is_expert, group in _groups(module, config) if group]
    if not groups:
        raise TrainingError("all parameters are frozen, so there is nothing to train")
    (is_expert, first), *others = groups
    optimizer = OPTIMIZERS[config.optimizer].make(
        first, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
    )
    optimizer.param_groups[0][EXPERT] = is_expert
    for is_expert, group in others:
        optimizer.add_param_group({"params": group, EXPERT: is_expert})
    return optimizer


def set_learning_rates(optimizer: torch.optim.Optimizer, config: TrainConfig, step: int) -> None:
    """Give every group its learning rate of the step with this number, counted from 0."""
    for group in optimizer.param_groups:
        is_expert = group[EXPERT]
        rate = config.expert_learning_rate_at if is_expert else config.learning_rate_at
        group["lr"] = rate(step)


def drop_early_gradients(optimizer: torch.optim.Optimizer, config: TrainConfig, step: int) -> None:
    """Drop the gradients of an expert that has not started: the others are not clipped for them,
    and its moments begin with it."""
    if step < config.expert_start:
        for group in optimizer.param_groups:
            if group[EXPERT]:
                for parameter in group["params"]:
                    parameter.grad = None


def _groups(module: nn.Module, config: TrainConfig) -> list[tuple[bool, list[nn.Parameter]]]:
    """The trained parameters, each group with whether it is the expert."""
    trained = [p for p in module.parameters() if p.requires_grad]
    if not config.has_own_expert_rate:
        return [(False, trained)]
    expert = getattr(module, "expert", None)
    if expert is None:
        raise TrainingError(
            "there is no flow expert to train apart: leave --expert-learning-rate and "
            "--expert-start out"
        )
    own = set(expert.parameters())
    return [
        (False, [p for p in trained if p not in own]),
        (True, [p for p in trained if p in own]),
    ]
