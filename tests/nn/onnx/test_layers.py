"""Each module as nodes of a graph against the module itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oatkit.nn import image_encoder, transformer
from oatkit.nn.onnx import layers
from oatkit.nn.onnx.graph import Graph
from tests.nn.onnx.graph_running import run

WIDTH, HEADS = 8, 2
MASK = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]], dtype=torch.bool)


def strong(module: nn.Module) -> nn.Module:
    """The module with weights that leave nothing unnoticed, biases and norms included."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def close(found: np.ndarray, wanted: Tensor) -> None:
    assert np.ptp(found) > 1e-2
    np.testing.assert_allclose(found, wanted.detach().numpy(), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool) -> None:
    module, x, graph = strong(nn.Linear(WIDTH, 5, bias)), torch.randn(2, 3, WIDTH), Graph()
    close(run(graph, layers.linear(graph, module, "x"), x=x), module(x))


def test_layer_norm() -> None:
    module, x, graph = strong(nn.LayerNorm(WIDTH)), torch.randn(2, 3, WIDTH), Graph()
    close(run(graph, layers.layer_norm(graph, module, "x"), x=x), module(x))


def test_mlp() -> None:
    module, x, graph = strong(transformer.Mlp(WIDTH)), torch.randn(2, 3, WIDTH), Graph()
    close(run(graph, layers.mlp(graph, module, "x"), x=x), module(x))


@pytest.mark.parametrize("mask", [MASK, None], ids=["masked", "open"])
def test_self_attention(mask: Tensor | None) -> None:
    module = strong(transformer.SelfAttention(WIDTH, HEADS))
    x, graph = torch.randn(2, 3, WIDTH), Graph()
    found = run(graph, layers.self_attention(graph, module, "x", mask), x=x)
    close(found, module(x, mask))


def test_transformer() -> None:
    module = strong(transformer.Transformer(WIDTH, 2, HEADS, MASK))
    x, graph = torch.randn(2, 3, WIDTH), Graph()
    close(run(graph, layers.transformer(graph, module, "x"), x=x), module(x))


@pytest.mark.parametrize("which", ["cross decoder", "registers", "registers that see each other"])
def test_queries_that_read_a_source(which: str) -> None:
    """The queries have one row and the source any number."""
    sizes = (WIDTH, 2, HEADS)
    module = strong(
        transformer.CrossDecoder(*sizes)
        if which == "cross decoder"
        else transformer.RegisterEncoder(*sizes, MASK if which != "registers" else None)
    )
    queries, graph = torch.randn(1, 3, WIDTH), Graph()
    result = layers.cross_decoder(graph, module, graph.weight(queries), "source")
    source = torch.randn(4, 5, WIDTH)
    close(run(graph, result, source=source), module(queries, source))


def test_image_encoder() -> None:
    """The trunk halves its image five times: 70 pixels leave 3 x 3."""
    torch.manual_seed(0)
    module = image_encoder.ImageEncoder(6, num_channels=4, num_points=3)
    for part in module.modules():
        if isinstance(part, nn.GroupNorm | nn.Conv2d) and part.bias is not None:
            nn.init.normal_(part.bias, std=0.3)
    images, graph = torch.rand(2, 3, 70, 70), Graph()
    close(
        run(graph, layers.image_encoder(graph, module, "images", 70), images=images), module(images)
    )


@pytest.mark.parametrize(("shape", "size", "crop"), [((20, 24), 16, 12), ((16, 9), 16, 13)])
def test_resize_and_crop(shape: tuple[int, int], size: int, crop: int) -> None:
    images, graph = torch.rand(3, 3, *shape), Graph()
    found = run(graph, layers.resize_and_crop(graph, "x", shape, size, crop), x=images)
    close(found, image_encoder.resize_and_crop(images[:, None], size, crop, None)[:, 0])
