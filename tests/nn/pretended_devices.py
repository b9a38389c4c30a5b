"""A machine with GPUs, as far as torch says so; nothing can be computed on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch


def pretend_cuda(monkeypatch: pytest.MonkeyPatch, count: int = 2) -> None:
    """Let torch say that there are CUDA devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100")


def pretend_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch say that this is a Mac with a GPU."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


class AsynchronousClock:
    """A clock beside a device that only notes work, and does it when somebody waits for it.

    So a clock that is read too early shows no time at all, as on a GPU it shows the time of
    launching kernels.

    Args:
        monkeypatch: Replaces the clock and the waiting.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self._waiting_s = 0.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now_s)
        monkeypatch.setattr("oatkit.nn.device.synchronize", self._wait)

    def launch(self, work_s: float) -> None:
        """Give the device work that takes so long."""
        self._waiting_s += work_s

    def timed(self, function: Any, work_s: float) -> Any:
        """The same function, or every step of a generator, with work on the device."""

        def run(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            if not hasattr(found, "__next__"):
                self.launch(work_s)
                return found
            return self._steps(found, work_s)

        return run

    def _steps(self, steps: Any, work_s: float) -> Any:
        for step in steps:
            self.launch(work_s)
            yield step

    def _wait(self, device: torch.device) -> None:
        assert isinstance(device, torch.device)
        self.now_s += self._waiting_s
        self._waiting_s = 0.0
