"""A policy without a server, whose answers tests hold back."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


class Counting:
    """A policy whose chunk holds, at step t of an observation x, the number x + t."""

    def __init__(self, horizon: int = 8) -> None:
        self.horizon = horizon
        self.seen: list[int] = []
        self.requests: list[dict[str, Any]] = []
        self.num_resets = 0
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.more: dict[str, Any] = {}

    def infer(self, obs: Any, **request: Any) -> dict[str, Any]:
        self.seen.append(obs["x"])
        self.requests.append(request)
        self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return {"actions": (obs["x"] + np.arange(self.horizon))[:, None], **self.more}

    def reset(self) -> None:
        self.num_resets += 1
