"""A call over tensors that stay where they are, which a GPU replays without Python."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP = 3
"""Number of calls before a graph is captured, in which libraries choose and load their kernels."""


class CapturedCall:
    """A function that is captured as a CUDA graph when this is made, and replayed by every call.

    Elsewhere the function is called again, and its result goes into the same tensor, so that a test
    on a CPU sees what replaying would see. Nothing here has run on a GPU yet.

    Args:
        function: A function that reads and writes tensors of fixed shape and place. It may not read
            numbers from tensors into Python, nor make tensors of Python's numbers.
        device: Device of the tensors.
    """

    def __init__(self, function: Callable[[], Tensor], device: torch.device) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None
        self._function = function
        if device.type != "cuda":
            self._output = function()
            return
        with torch.cuda.device(device):
            current, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(current)
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    function()
            current.wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            # other threads of a server may use the device meanwhile
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._output = function()

    def __call__(self) -> Tensor:
        """The result, in a tensor that the next call overwrites."""
        if self._graph is None:
            self._output.copy_(self._function())
        else:
            self._graph.replay()
        return self._output
