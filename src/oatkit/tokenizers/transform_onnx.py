"""How actions are represented, undone by nodes of an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from oatkit.data.action_steps import ActionStep, Binary, Delta, Relative, Unwrap
from oatkit.data.action_transform import ActionTransform
from oatkit.nn.onnx.graph import Graph

STATE = "state"


def inverted(graph: Graph, transform: ActionTransform, represented: str) -> str:
    """Nodes that make represented chunks raw, (B, T, A).

    Args:
        graph: Graph to add them to; it has an input `state`, (B, S), where one is needed.
        transform: How the actions are represented.
        represented: Name of the represented chunks.
    """
    if transform.turns:
        raise ValueError(
            f"the actions {transform} have no decoder in ONNX: rotations are turned back where "
            "oatkit is; serve the policy, or train on rotations as they are"
        )
    actions = represented
    for step in reversed(transform.steps):
        actions = _inverted_step(graph, transform, step, actions)
    return actions


def _inverted_step(graph: Graph, transform: ActionTransform, step: ActionStep, actions: str) -> str:
    if isinstance(step, Relative):
        own_SA = torch.zeros(transform.state_dim, transform.action_dim)
        own_SA[list(step.state_dims), list(step.dims)] = 1
        state = graph.add("MatMul", STATE, graph.weight(own_SA))
        return graph.add("Add", actions, graph.reshape(state, [-1, 1, transform.action_dim]))
    if isinstance(step, Delta):
        changed = graph.add("CumSum", actions, graph.weight(1))
    elif isinstance(step, Unwrap):
        low, period = graph.weight(float(step.low)), graph.weight(float(step.high - step.low))
        turns = graph.add("Div", graph.add("Sub", actions, low), period)
        whole = graph.add("Mul", graph.add("Floor", turns), period)
        changed = graph.add("Sub", actions, whole)
    else:
        assert isinstance(step, Binary)
        assert step.values is not None
        low, high = (graph.weight(float(value)) for value in step.values)
        middle = graph.weight(float(sum(step.values) / 2))
        changed = graph.add("Where", graph.add("Greater", actions, middle), high, low)
    return graph.add("Where", _is_own(graph, step.dims, transform.action_dim), changed, actions)


def _is_own(graph: Graph, dims: Sequence[int], action_dim: int) -> str:
    """(A,) bool."""
    is_own_A = torch.zeros(action_dim, dtype=torch.bool)
    is_own_A[list(dims)] = True
    return graph.weight(is_own_A)
