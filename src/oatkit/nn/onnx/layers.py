"""The modules of `transformer` and `image_encoder` as nodes of an ONNX graph, one function each.

A function takes the name of its input and gives the name of its output. All use plain operators,
which runtimes have had for years. A test compares each function with its module.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from oatkit.nn.image_encoder import ImageEncoder, ResidualBlock, SpatialSoftmax, resize
from oatkit.nn.onnx.graph import Graph
from oatkit.nn.transformer import (
    CrossAttention,
    CrossDecoder,
    KeysValues,
    Mlp,
    RegisterEncoder,
    SelfAttention,
    Transformer,
)

OPSET, IR_VERSION = 18, 8
"""Version of the operators that these functions need, and of the file format of its time."""
HIDDEN = -1e9
"""Number that is added to the scores of slots that a mask hides."""


def narrowed(given: nn.Linear, num_inputs: int, num_outputs: int) -> nn.Linear:
    """A linear layer that reads the first inputs and gives the first outputs of another alone."""
    own = nn.Linear(num_inputs, num_outputs)
    own.weight = nn.Parameter(given.weight[:num_outputs, :num_inputs].detach())
    own.bias = nn.Parameter(given.bias[:num_outputs].detach())
    return own


def linear(graph: Graph, module: nn.Linear, x: str) -> str:
    y = graph.add("MatMul", x, graph.weight(module.weight.t()))
    return y if module.bias is None else graph.add("Add", y, graph.weight(module.bias))


def layer_norm(graph: Graph, module: nn.LayerNorm, x: str) -> str:
    return graph.norm(x, (module.weight, module.bias))


def mlp(graph: Graph, module: Mlp, x: str) -> str:
    wide = linear(graph, module.widen, layer_norm(graph, module.norm, x))
    return linear(graph, module.narrow, graph.add("Relu", wide))


def self_attention(graph: Graph, module: SelfAttention, x: str, mask: Tensor | None) -> str:
    qkv = linear(graph, module.qkv, layer_norm(graph, module.norm, x))
    q, k, v = (split_heads(graph, part, module.num_heads) for part in graph.parts(qkv, 3, -1))
    width = module.out.in_features // module.num_heads
    return linear(graph, module.out, _attention(graph, q, k, v, width, mask))


def cross_attention(graph: Graph, module: CrossAttention, x: str, pair: tuple[str, str]) -> str:
    q = linear(graph, module.query, layer_norm(graph, module.norm, x))
    q = split_heads(graph, q, module.num_heads)
    width = module.out.in_features // module.num_heads
    return linear(graph, module.out, _attention(graph, q, *pair, width, None))


def keys_values(graph: Graph, module: KeysValues, source: str) -> list[tuple[str, str]]:
    projected = linear(graph, module.project, layer_norm(graph, module.norm, source))
    parts = graph.parts(projected, 2 * module.num_layers, -1)
    heads = [split_heads(graph, part, module.num_heads) for part in parts]
    return list(zip(heads[0::2], heads[1::2], strict=True))


def transformer(graph: Graph, module: Transformer, x: str) -> str:
    for attention, widening in zip(module.attention, module.mlp, strict=True):
        seen = self_attention(graph, cast(SelfAttention, attention), x, module.mask)
        x = graph.add("Add", x, seen)
        x = graph.add("Add", x, mlp(graph, cast(Mlp, widening), x))
    return layer_norm(graph, module.norm, x)


def cross_decoder(
    graph: Graph, module: CrossDecoder | RegisterEncoder, queries: str, source: str
) -> str:
    """Queries that attend to a source and, in a `RegisterEncoder`, to each other."""
    x = queries
    for layer, pair in enumerate(keys_values(graph, module.keys_values, source)):
        if isinstance(module, RegisterEncoder) and module.mask is not None:
            own = cast(SelfAttention, module.self_attention[layer])
            x = graph.add("Add", x, self_attention(graph, own, x, module.mask))
        reading = cast(CrossAttention, module.attention[layer])
        x = graph.add("Add", x, cross_attention(graph, reading, x, pair))
        x = graph.add("Add", x, mlp(graph, cast(Mlp, module.mlp[layer]), x))
    return layer_norm(graph, module.norm, x)


def split_heads(graph: Graph, x: str, num_heads: int) -> str:
    """Heads of slots, (B, Q, D) -> (B, H, Q, C)."""
    return graph.add("Transpose", graph.reshape(x, [0, 0, num_heads, -1]), perm=[0, 2, 1, 3])


def image_encoder(graph: Graph, module: ImageEncoder, images: str, size: int) -> str:
    """Vectors of images with values from 0 to 1, (N, 3, size, size) -> (N, width)."""
    doubled = graph.add("Mul", images, graph.weight(2.0))
    x = graph.add("Sub", doubled, graph.weight(1.0))
    for part in module.trunk:
        x = _image_part(graph, part, x)
    some = module.project.weight
    num_cells = module.trunk(torch.zeros(1, 3, size, size).to(some)).shape[-1]
    return linear(graph, module.project, _spatial_softmax(graph, module.pool, x, num_cells))


def resize_and_crop(graph: Graph, images: str, shape: tuple[int, int], size: int, crop: int) -> str:
    """`image_encoder.resize_and_crop` of images (N, 3, *shape) with values from 0 to 1.

    Resizing is linear in rows and in columns, so it is two matrix products.
    """
    rows_CH, columns_CW = (_resizing(length, size, crop) for length in shape)
    tall = graph.add("MatMul", graph.weight(rows_CH), images)
    return graph.add("MatMul", tall, graph.weight(columns_CW.t()))


def _resizing(length: int, size: int, crop: int) -> Tensor:
    """Matrix (crop, length) that resizes and crops a line of pixels."""
    start = (size - crop) // 2
    if length == size:
        return torch.eye(size)[start : start + crop]
    # lines one below the other, of which each holds one pixel; `size` high, so that only the
    # width is resized
    lines = torch.eye(length)[None, :, None, None].expand(1, length, 1, size, length)
    return resize(lines, size)[0, :, 0, 0, start : start + crop].t()


def _attention(graph: Graph, q: str, k: str, v: str, width: int, mask: Tensor | None) -> str:
    """Attention, (B, H, Q, C) and twice (B, H, S, C) -> (B, Q, D); C is `width`."""
    turned = graph.add("Transpose", k, perm=[0, 1, 3, 2])
    scores = graph.add("MatMul", graph.add("Mul", q, graph.weight(width**-0.5)), turned)
    if mask is not None:
        bias = torch.zeros(mask.shape).masked_fill(~mask.cpu(), HIDDEN)
        scores = graph.add("Add", scores, graph.weight(bias))
    seen = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)
    return graph.reshape(graph.add("Transpose", seen, perm=[0, 2, 1, 3]), [0, 0, -1])


def _image_part(graph: Graph, part: nn.Module, x: str) -> str:
    if isinstance(part, nn.Conv2d):
        return _convolution(graph, part, x)
    if isinstance(part, nn.GroupNorm):
        return _group_norm(graph, part, x)
    if isinstance(part, nn.ReLU):
        return graph.add("Relu", x)
    if isinstance(part, nn.MaxPool2d):
        sizes: dict[str, Any] = {"kernel_shape": [part.kernel_size] * 2}
        sizes |= {"strides": [part.stride] * 2, "pads": [part.padding] * 4}
        return graph.add("MaxPool", x, **sizes)
    assert isinstance(part, ResidualBlock)
    ways = []
    for way in (part.shortcut, part.convolve):
        y = x
        for step in way:
            y = _image_part(graph, step, y)
        ways.append(y)
    return graph.add("Relu", graph.add("Add", *ways))


def _convolution(graph: Graph, module: nn.Conv2d, x: str) -> str:
    inputs = [module.weight] if module.bias is None else [module.weight, module.bias]
    pads = [*module.padding, *module.padding]
    return graph.add("Conv", x, *map(graph.weight, inputs), strides=list(module.stride), pads=pads)


def _group_norm(graph: Graph, module: nn.GroupNorm, x: str) -> str:
    groups, ones = module.num_groups, torch.ones(module.num_groups)
    grouped = graph.reshape(x, [0, groups, -1])
    weights = (graph.weight(ones), graph.weight(0 * ones))
    normed = graph.add("InstanceNormalization", grouped, *weights, epsilon=module.eps)
    whole = graph.add("Reshape", normed, graph.add("Shape", x))
    scaled = graph.add("Mul", whole, graph.weight(module.weight[:, None, None]))
    return graph.add("Add", scaled, graph.weight(module.bias[:, None, None]))


def _spatial_softmax(graph: Graph, module: SpatialSoftmax, x: str, num_cells: int) -> str:
    maps = graph.reshape(_convolution(graph, module.features, x), [0, 0, -1])
    line = torch.linspace(-1, 1, num_cells)
    right_and_down_X2 = torch.cartesian_prod(line, line).flip(1)
    share = graph.add("Softmax", maps, axis=-1)
    means_NP2 = graph.add("MatMul", share, graph.weight(right_and_down_X2))
    return graph.reshape(graph.add("Transpose", means_NP2, perm=[0, 2, 1]), [0, -1])
