"""Captured calls on a CPU, and the calls that they would make on a GPU."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from oatkit.nn.captured_call import WARM_UP, CapturedCall


def test_every_call_reads_its_inputs_again_and_writes_into_one_tensor() -> None:
    given = torch.tensor([1.0, 2.0])
    call = CapturedCall(lambda: given * 2, given.device)
    first = call()
    assert first.tolist() == [2, 4]
    given.copy_(torch.tensor([3.0, 5.0]))
    assert call() is first
    assert first.tolist() == [6, 10]


class Stream:
    def wait_stream(self, other: Stream) -> None:
        assert other is not self


def test_on_a_gpu_the_function_is_captured_once_and_then_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU a call of the function instead of a replay would bring back what Python costs."""
    done: list[str] = []

    class Graph:
        def replay(self) -> None:
            done.append("replay")

    @contextmanager
    def graph(made: Graph, *, capture_error_mode: str) -> Any:
        assert isinstance(made, Graph)
        done.append(f"capture {capture_error_mode}")
        yield

    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)

    def function() -> Tensor:
        done.append("function")
        return torch.zeros(1)

    call = CapturedCall(function, torch.device("cuda:1"))
    assert done == ["function"] * WARM_UP + ["capture thread_local", "function"]
    assert call() is call()
    assert done[-2:] == ["replay", "replay"]
