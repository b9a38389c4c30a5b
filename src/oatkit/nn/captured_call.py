"""Calls over tensors that stay where they are, which a GPU replays without Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor

WARM_UP = 3
"""Number of calls before a graph is captured, in which libraries choose and load their kernels."""
KEPT_SIZES = 16
"""Number of sizes of inputs whose buffers and captured calls are kept, unless more are expected."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class GraphPool:
    """Captures calls as CUDA graphs that share memory: one runs at a time, so the largest decides.

    Elsewhere a call is the function itself, so that a test on a CPU sees what replaying would see.
    Nothing here has run on a GPU yet.

    Args:
        num_sizes: Number of sizes of inputs to keep; those that were not used for longest go.
    """

    def __init__(self, num_sizes: int = KEPT_SIZES) -> None:
        self.num_sizes = num_sizes
        self._users: WeakSet[CapturedCall] = WeakSet()
        self._handle: Any = None
        self._stream: Any = None

    def __reduce__(self) -> tuple[type[GraphPool], tuple[int]]:
        """A copy is an empty pool, because graphs cannot be copied."""
        return GraphPool, (self.num_sizes,)

    def capture(self, function: Callable[[], Tensor], device: torch.device) -> CapturedCall:
        """Capture a function.

        Args:
            function: A function that reads and writes tensors of fixed shape and place. It may not
                read numbers from tensors into Python, nor make tensors of Python's numbers.
            device: Device of the tensors.
        """
        if device.type != "cuda":
            return CapturedCall(function, function(), None)
        with torch.cuda.device(device):
            # a pool ends with its last graph, and its handle is refused from then on
            if not self._users or self._stream.device != device:
                self._handle = torch.cuda.graph_pool_handle()
                self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UP):
                    function()
            current.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            # other threads of a server may use the device meanwhile
            how: dict[str, Any] = {"capture_error_mode": "thread_local"}
            with torch.cuda.graph(graph, pool=self._handle, stream=self._stream, **how):
                output = function()
        call = CapturedCall(function, output, graph)
        self._users.add(call)
        return call


class CapturedCall:
    """A function that `GraphPool` has captured, and that every call replays.

    Args:
        function: The function, which holds the tensors that it reads.
        output: The tensor that a replay writes.
        graph: The graph to replay; None to call the function again.
    """

    def __init__(
        self, function: Callable[[], Tensor], output: Tensor, graph: torch.cuda.CUDAGraph | None
    ) -> None:
        self._function, self._output, self._graph = function, output, graph

    def __call__(self) -> Tensor:
        """The result, copied from memory that any call of the pool may overwrite."""
        if self._graph is None:
            return self._function()
        self._graph.replay()
        return self._output.clone()


def latest(kept: dict[Key, Value], key: Key, make: Callable[[], Value], most: int) -> Value:
    """The value of a key, made where it is missing; of too many, the longest unused is dropped."""
    kept[key] = kept.pop(key) if key in kept else make()
    if len(kept) > most:
        del kept[next(iter(kept))]
    return kept[key]
