"""The light policy with a flow head as ONNX files: one encodes an observation, the other gives the
velocity of an Euler step.

observation ── encoder ── keys, values ──┐
point, time ─────────────────────────────┴── step ── velocity
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch

from oatkit.nn.flow_expert import time_periods
from oatkit.nn.flow_head import FlowHead
from oatkit.nn.onnx import layers as modules
from oatkit.nn.onnx.graph import Graph, Port
from oatkit.nn.transformer import CrossAttention, Mlp, SelfAttention
from oatkit.policies.generation.budget_limits import MAX_STEPS, step_choices
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.policies.light.observation_onnx import add_encoder, observation_ports

POINT, TIME, KEYS, VALUES = "point", "time", "keys", "values"
VELOCITY = "velocity"


@torch.inference_mode()
def flow_encoder_model(flow: LightFlowModel) -> bytes:
    """The file that is run once per observation; `observation_ports` are its inputs.

    keys, values   (L B, heads, context slots, head width), those of each layer one after the other
    """
    graph, net = Graph(), flow.net
    context = add_encoder(graph, net, net.config.sizes, flow.spec)
    keys, values = zip(*modules.keys_values(graph, net.head.keys_values, context), strict=True)
    found = {KEYS: keys, VALUES: values}
    outputs = {
        name: (graph.add("Concat", *found[name], axis=0), port)
        for name, port in _context_ports(flow).items()
    }
    return graph.model(
        observation_ports(flow.spec),
        outputs,
        opset=modules.OPSET,
        ir_version=modules.IR_VERSION,
    )


@torch.inference_mode()
def flow_step_model(flow: LightFlowModel) -> bytes:
    """The file that is run once per Euler step.

    point          (B, horizon, action_dim) float32, noise at first, normalized units
    time           (B,) float32, from 1 (noise) to 0
    keys, values   what the encoder gives
    velocity       (B, horizon, action_dim), of which a step of size s subtracts s times
    """
    graph, head = Graph(), flow.net.head
    num_layers, width = len(head.attention), head.into.out_features
    dim = flow.actions.dim  # a network for several robots has room for more
    into = modules.narrowed(head.into, dim, width)
    x = graph.add("Add", modules.linear(graph, into, POINT), graph.weight(head.positions))
    x = graph.add("Add", x, graph.reshape(_time(graph, head), [-1, 1, width]))
    pairs = zip(*(graph.parts(name, num_layers, 0) for name in (KEYS, VALUES)), strict=True)
    for layer, pair in enumerate(pairs):
        own = cast(SelfAttention, head.attention[layer])
        x = graph.add("Add", x, modules.self_attention(graph, own, x, None))
        reading = cast(CrossAttention, head.reading[layer])
        x = graph.add("Add", x, modules.cross_attention(graph, reading, x, pair))
        x = graph.add("Add", x, modules.mlp(graph, cast(Mlp, head.mlp[layer]), x))
    out = modules.narrowed(head.out, width, dim)
    velocity = modules.linear(graph, out, modules.layer_norm(graph, head.norm, x))
    chunk = Port("float32", ("B", flow.net.chunk_shape[0], dim))
    inputs = {POINT: chunk, TIME: Port("float32", ("B",)), **_context_ports(flow)}
    return graph.model(
        inputs, {VELOCITY: (velocity, chunk)}, opset=modules.OPSET, ir_version=modules.IR_VERSION
    )


def flow_facts(flow: LightFlowModel) -> dict[str, Any]:
    """What a caller of both files needs beside them."""
    return {
        "num_steps": flow.net.num_steps,
        "max_steps": max(MAX_STEPS, flow.net.num_steps),
        "budgets": list(step_choices(flow.net.num_steps)),
    }


def _context_ports(flow: LightFlowModel) -> dict[str, Port]:
    sizes, num_slots = flow.net.config.sizes, len(flow.net.slots)
    shape = ("LB", sizes.num_heads, num_slots, sizes.width // sizes.num_heads)
    return {name: Port("float32", shape) for name in (KEYS, VALUES)}


def _time(graph: Graph, head: FlowHead) -> str:
    """`FlowHead.encode_time`, (B, D)."""
    periods = time_periods(head.into.out_features, torch.device("cpu"))
    turns = graph.add("Mul", graph.reshape(TIME, [-1, 1]), graph.weight(2 * math.pi))
    angle = graph.add("Div", turns, graph.weight(periods))
    waves = graph.add("Concat", graph.add("Sin", angle), graph.add("Cos", angle), axis=1)
    first, _, last = head.time
    # a width that is odd has one more column, whose input is always zero
    columns = cast(torch.Tensor, first.weight)[:, : 2 * len(periods)]
    h = graph.add("MatMul", waves, graph.weight(columns.t()))
    h = graph.add("Add", h, graph.weight(cast(torch.Tensor, first.bias)))
    h = graph.add("Mul", h, graph.add("Sigmoid", h))
    return modules.linear(graph, cast(torch.nn.Linear, last), h)
