"""Ways to run the default policy's transformer at batch 1: products with few rows, generations.

    python -m benchmarks.generation_variants

Rows are the slots of a call: a power-of-two schedule of 16 tokens has calls of 1, 1, 2, 4 and 8, a
token-wise one 16 of 1. `products` multiplies with every weight of the decoder once and does
nothing else; with 1 row that is the bare matrix-vector pass. `first_call_ms` is the first call of a
generation, `generation` all of it from the encoded observation to the last id. All ways of one
table are timed in turns in one process; times are medians. With one thread they are of the
processor, not of the clock, so that other work disturbs them less; beside other work run it with
`--threads 1` only.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from benchmarks.record import write_result
from oatkit.nn.decoder_backend import Frozen
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.stage_decoder import OnnxDecoder
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.policies import LightConfig
from oatkit.policies.generation.packing import pack
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.types import Schedule

SEED = 0
VOCAB, NUM_TOKENS, CONTEXT = 1920, 16, 3
ROWS = (1, 2, 4, 8)
ROUNDS = 15
SCHEDULES = {"pow2": Schedule.pow2(NUM_TOKENS), "tokenwise": Schedule.tokenwise(NUM_TOKENS)}

Multiply = Callable[[Tensor], Any]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    numbers = parser.parse_args().threads
    torch.manual_seed(SEED)
    config = LightConfig()
    decoder = TokenDecoder(
        VOCAB + 1,
        VOCAB,
        NUM_TOKENS,
        width=config.width,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
    ).eval()
    frozen = FrozenDecoder(decoder)
    results = {}
    for threads in numbers:
        torch.set_num_threads(threads)
        results[f"{threads} threads"] = {
            "products_ms": products(frozen, threads),
            "first_call_ms": first_calls(decoder, frozen, threads),
            "generation": generations(decoder, frozen, threads),
        }
    settings = {"parameters": sum(p.numel() for p in decoder.parameters()), "batch_size": 1}
    write_result("generation_variants", seed=SEED, settings=settings, results=results)


def products(frozen: FrozenDecoder, threads: int) -> dict[str, dict[str, float]]:
    """Milliseconds by way and rows."""
    weights = [w for layer in frozen.layers for w in (layer.qkv, layer.out)]
    weights += [w for layer in frozen.layers for w in (layer.widen, layer.narrow)]
    # queries and outputs of cross-attention, which generation folds into the context
    weights += [torch.randn(frozen.width, frozen.width) for _ in range(2 * len(frozen.layers))]
    weights.append(frozen.head)
    inputs = {rows: [torch.randn(rows, len(w)) for w in weights] for rows in ROWS}

    def all_by(ways: list[Multiply], rows: int) -> Callable[[], object]:
        return lambda: [way(x) for way, x in zip(ways, inputs[rows], strict=True)]

    jobs = {
        (name, rows): all_by([make(w) for w in weights], rows)
        for name, make in WAYS.items()
        for rows in ROWS
    }
    for name, is_int8 in {"onnxruntime": False, "onnxruntime, int8": True}.items():
        run = onnx_products(weights, threads, is_int8)
        for rows in ROWS:
            jobs[name, rows] = partial(run, inputs[rows])
    times = in_turns(jobs, threads)
    names = dict.fromkeys(name for name, _ in jobs)
    return {
        name: {str(rows): round(1e3 * median(times[name, rows]), 3) for rows in ROWS}
        for name in names
    }


def _int8(weight: Tensor) -> Multiply:
    by_output = weight.t().contiguous()
    scales = by_output.abs().amax(dim=1) / 127
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still what torch has
        whole = torch.quantize_per_channel(
            by_output, scales, torch.zeros(len(scales), dtype=torch.long), 0, torch.qint8
        )
        packed = torch.ops.quantized.linear_prepack(whole, None)
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, False)


def _half(weight: Tensor) -> Multiply:
    packed = torch.ops.quantized.linear_prepack_fp16(weight.t().contiguous(), None)
    return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, packed)


def _numpy(weight: Tensor) -> Multiply:
    array = weight.numpy()
    return lambda x: np.matmul(x.numpy(), array)


def _linear(weight: Tensor) -> Multiply:
    by_output = weight.t().contiguous()
    return lambda x: F.linear(x, by_output)


def _onednn(weight: Tensor) -> Multiply:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), ROWS[-1])
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def _mkl(weight: Tensor) -> Multiply:
    by_output = weight.t().contiguous()
    packed = torch.ops.mkl._mkl_reorder_linear_weight(by_output, ROWS[-1])
    return lambda x: torch.ops.mkl._mkl_linear(x, packed, by_output, None, ROWS[-1])


def _panels(weight: Tensor) -> Multiply:
    panels = weight.view(len(weight), -1, 32).transpose(0, 1).contiguous()
    return lambda x: torch.bmm(x.expand(len(panels), -1, -1), panels)


WAYS: dict[str, Callable[[Tensor], Multiply]] = {
    "torch.mm": lambda weight: lambda x: torch.mm(x, weight),
    "torch linear": _linear,
    "torch, panels of 32 columns": _panels,
    "torch, packed by MKL": _mkl,
    "torch, packed by oneDNN": _onednn,
    "torch, float16 weights (FBGEMM)": _half,
    "torch, int8 (FBGEMM)": _int8,
    "numpy": _numpy,
}


def onnx_products(
    weights: list[Tensor], threads: int, is_int8: bool
) -> Callable[[list[Tensor]], object]:
    """Runs one graph with all products."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes, kept, names = [], [], [f"x{i}" for i in range(len(weights))]
    for i, weight in enumerate(weights):
        if not is_int8:
            kept.append(numpy_helper.from_array(weight.numpy(), f"w{i}"))
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"]))
            continue
        scale = weight.abs().amax(dim=0) / 127
        whole = (weight / scale).round().to(torch.int8)
        kept += [
            numpy_helper.from_array(whole.numpy(), f"w{i}"),
            numpy_helper.from_array(scale.numpy(), f"s{i}"),
        ]
        nodes.append(
            helper.make_node(
                "DynamicQuantizeMatMul",
                [f"x{i}", f"w{i}", f"s{i}"],
                [f"y{i}"],
                domain="com.microsoft",
            )
        )

    def described(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])

    graph = helper.make_graph(
        nodes,
        "products",
        [described(name, len(w)) for name, w in zip(names, weights, strict=True)],
        [described(f"y{i}", w.shape[1]) for i, w in enumerate(weights)],
        kept,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run(inputs: list[Tensor]) -> object:
        return session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})

    return run


def first_calls(decoder: TokenDecoder, frozen: FrozenDecoder, threads: int) -> dict[str, float]:
    """Milliseconds by way; `torch.jit` runs the traced and frozen operations of `torch`."""
    context = decoder.keys_values(torch.randn(1, CONTEXT, frozen.width))
    inputs, positions = torch.tensor([[VOCAB]]), torch.tensor([0])
    ways: dict[str, Frozen] = {"torch": frozen, "onnxruntime": OnnxDecoder(frozen)}

    def call(way: Frozen) -> Callable[[Tensor], Tensor]:
        return lambda inputs: way.start(context, 1, NUM_TOKENS).feed(inputs, positions, None, 1)

    calls = {name: call(way) for name, way in ways.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still what torch has
        traced = torch.jit.trace(calls["torch"], inputs, check_trace=False)  # type: ignore[no-untyped-call]
    calls["torch.jit"] = traced
    jobs: dict[tuple[str, Any], Callable[[], object]] = {
        (name, 1): partial(run, inputs) for name, run in calls.items()
    }
    times = in_turns(jobs, threads)
    return {name: round(1e3 * median(times[name, 1]), 3) for name in calls}


def generations(
    decoder: TokenDecoder, frozen: FrozenDecoder, threads: int
) -> dict[str, dict[str, float]]:
    """Milliseconds by way and schedule, and how much faster power-of-two is."""
    context = decoder.keys_values(torch.randn(1, CONTEXT, frozen.width))
    ways: dict[str, Frozen] = {"torch": frozen, "onnxruntime": OnnxDecoder(frozen)}

    def job(way: Frozen, schedule: Schedule) -> Callable[[], object]:
        uniform, stages = torch.rand(1, schedule.num_tokens), pack(schedule).stages
        return lambda: list(
            generate_stages(
                way.start(context, 1, schedule.num_tokens), stages, uniform, mask_id=VOCAB
            )
        )

    jobs = {(n, s): job(way, SCHEDULES[s]) for n, way in ways.items() for s in SCHEDULES}
    times = in_turns(jobs, threads)
    found = {}
    for name in ways:
        pairs = zip(times[name, "tokenwise"], times[name, "pow2"], strict=True)
        found[name] = {
            **{f"{s}_ms": round(1e3 * median(times[name, s]), 3) for s in SCHEDULES},
            "speedup": round(median(slow / fast for slow, fast in pairs), 2),
        }
    return found


def in_turns(
    jobs: dict[tuple[str, Any], Callable[[], object]], threads: int
) -> dict[tuple[str, Any], list[float]]:
    """Seconds of each round, every job once in each after one that does not count."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[tuple[str, Any], list[float]] = {key: [] for key in jobs}
    for _ in range(ROUNDS):
        for key, work in jobs.items():
            work()
            start = clock()
            work()
            times[key].append(clock() - start)
    return times


if __name__ == "__main__":
    main()
