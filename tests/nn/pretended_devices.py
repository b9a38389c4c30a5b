"""A machine with GPUs, as far as torch says so; nothing can be computed on them."""

from __future__ import annotations

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
