"""Captured calls on a CPU, and the calls that they would make on a GPU."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any
from weakref import WeakSet

import pytest
import torch
from torch import Tensor

from oatkit.nn.captured_call import KEPT_SIZES, WARM_UP, GraphPool, latest

CUDA = torch.device("cuda:1")


def test_every_call_reads_its_inputs_again() -> None:
    given = torch.tensor([1.0, 2.0])
    call = GraphPool().capture(lambda: given * 2, given.device)
    first = call()
    assert first.tolist() == [2, 4]
    given.copy_(torch.tensor([3.0, 5.0]))
    assert call().tolist() == [6, 10]
    assert first.tolist() == [2, 4]


class FakeStream:
    def __init__(self) -> None:
        self.device = FakeCuda.current

    def wait_stream(self, other: FakeStream) -> None:
        assert other is not self


class FakeGraph:
    """Overwrites, when it is replayed, what a test says that lies in the same memory."""

    overwritten: tuple[Tensor, ...] = ()

    def replay(self) -> None:
        for tensor in self.overwritten:
            tensor.fill_(torch.nan)


class FakeCuda:
    """The functions of `torch.cuda` that capturing calls, with the rules of its memory pools.

    A pool lives as long as a graph that was captured into it; `capture_begin` refuses the handle of
    one that is over.
    """

    current = CUDA

    def __init__(self) -> None:
        self.done: list[str] = []
        self.pools: dict[int, WeakSet[FakeGraph]] = {}
        self.streams: list[FakeStream] = []

    def graph_pool_handle(self) -> int:
        return len(self.pools)

    def stream(self, stream: FakeStream) -> Any:
        assert stream.device == self.current
        return nullcontext()

    @contextmanager
    def device(self, device: torch.device) -> Any:
        FakeCuda.current, before = device, FakeCuda.current
        yield
        FakeCuda.current = before

    @contextmanager
    def graph(
        self, graph: FakeGraph, *, pool: int, stream: FakeStream, capture_error_mode: str
    ) -> Any:
        assert pool not in self.pools or self.pools[pool], "the pool is over"
        self.pools.setdefault(pool, WeakSet()).add(graph)
        self.streams.append(stream)
        self.done.append(f"capture {capture_error_mode}")
        yield


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    for name in ("graph_pool_handle", "stream", "device", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    return fake


def function_of(output: Tensor, done: list[str] | None = None) -> Callable[[], Tensor]:
    def function() -> Tensor:
        if done is not None:
            done.append("function")
        return output

    return function


def test_on_a_gpu_the_function_is_captured_once_and_then_replayed(cuda: FakeCuda) -> None:
    """On a GPU a call of the function instead of a replay would bring back what Python costs."""
    call = GraphPool().capture(function_of(torch.ones(1), cuda.done), CUDA)
    assert cuda.done == ["function"] * WARM_UP + ["capture thread_local", "function"]
    assert call().tolist() == call().tolist() == [1]
    assert cuda.done.count("function") == WARM_UP + 1


def test_all_graphs_of_a_pool_share_memory_and_a_stream(cuda: FakeCuda) -> None:
    pool = GraphPool()
    calls = [pool.capture(function_of(torch.zeros(1)), CUDA) for _ in range(3)]
    assert [len(graphs) for graphs in cuda.pools.values()] == [3]
    assert len({id(stream) for stream in cuda.streams}) == 1
    other = GraphPool().capture(function_of(torch.zeros(1)), CUDA)
    assert [len(graphs) for graphs in cuda.pools.values()] == [3, 1]
    assert (len(calls), other().tolist()) == (3, [0])


def test_a_result_is_not_the_memory_that_the_next_replay_overwrites(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, first = GraphPool(), torch.tensor([1.0])
    calls = [pool.capture(function_of(output), CUDA) for output in (first, torch.zeros(1))]
    found = calls[0]()
    monkeypatch.setattr(FakeGraph, "overwritten", (first,))
    calls[1]()
    assert found.tolist() == [1]
    assert first.isnan().all()


def test_a_pool_whose_graphs_are_all_gone_is_made_anew(cuda: FakeCuda) -> None:
    """CUDA's allocator refuses the handle of a pool that has no graph any more."""
    pool = GraphPool()
    for number in range(2):
        calls = [pool.capture(function_of(torch.zeros(1)), CUDA) for _ in range(2)]
        assert len(cuda.pools[number]) == len(calls)
        del calls
    assert list(cuda.pools) == [0, 1]


def test_what_moves_to_another_gpu_is_captured_on_a_stream_of_it(cuda: FakeCuda) -> None:
    pool, there = GraphPool(), torch.device("cuda:0")
    calls = [pool.capture(function_of(torch.zeros(1)), device) for device in (CUDA, there)]
    assert [stream.device for stream in cuda.streams] == [CUDA, there]
    assert len(cuda.pools) == len(calls)


def test_a_copy_of_a_pool_is_empty(cuda: FakeCuda) -> None:
    pool = GraphPool()
    call = pool.capture(function_of(torch.zeros(1)), CUDA)
    one, two = deepcopy([pool, pool])
    assert one is two
    copied = one.capture(function_of(torch.zeros(1)), CUDA)
    assert len(cuda.pools) == len([call, copied])


def test_the_least_recently_used_is_dropped_at_once() -> None:
    class Value:
        pass

    made: WeakSet[Value] = WeakSet()

    def make() -> Value:
        value = Value()
        made.add(value)
        return value

    kept: dict[int, Value] = {}
    gc.disable()
    try:
        for key in range(KEPT_SIZES):
            latest(kept, key, make, KEPT_SIZES)
        first = latest(kept, 0, make, KEPT_SIZES)
        latest(kept, KEPT_SIZES, make, KEPT_SIZES)
        assert list(kept) == [*range(2, KEPT_SIZES), 0, KEPT_SIZES]
        assert kept[0] is first
        assert len(made) == KEPT_SIZES
    finally:
        gc.enable()
