"""A real policy that can be told to be slow, to hang or to fail, and that counts its batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oatkit
from oatkit.policies import Policy, Prediction
from oatkit.policies.observation.observations import Observations
from tests.policies import tiny

STATE = np.zeros(tiny.STATE_DIM, np.float32)
OBSERVATION = {"observation/state": STATE, "prompt": tiny.TASKS[0]}


def make_policy(folder: Path, kind: str = "oat-pow2", **settings: Any) -> Policy:
    dataset = oatkit.open_dataset(str(tiny.write_dataset(folder / "data")))
    return tiny.make_policy(kind, dataset, **{"history": 1, **settings})


class SlowPolicy:
    """Takes `stage_s` a stage and stops for a deadline, as a large policy would.

    `gate` holds predictions back while it is clear; `poison` is a state that fails its batch.
    """

    def __init__(self, policy: Policy, stage_s: float = 0.0) -> None:
        self._policy = policy
        self.spec = policy.spec
        self.tokenizer = policy.tokenizer
        self.schedule = policy.schedule
        self.extras = policy.extras
        self.head = policy.head
        self.heads = policy.heads
        self.device = policy.device
        self.budgets = policy.budgets
        self.digest = policy.digest
        self.execution = policy.execution
        self.stage_s = stage_s
        self.gate = threading.Event()
        self.gate.set()
        self.has_begun = threading.Event()
        self.batches: list[int] = []
        self.poison: float | None = None

    def read(self, observation: Mapping[str, Any]) -> Observations:
        return self._policy.read(observation)

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Any = None,
        deadline_ms: float | None = None,
        **sampling: Any,
    ) -> Prediction:
        began = time.perf_counter()
        if not isinstance(observation, Observations):
            observation = self.read(observation)
        self.batches.append(len(observation))
        self.has_begun.set()
        self.gate.wait()
        if self.poison is not None and self._has_poison(observation):
            raise RuntimeError("secret detail")
        reached = self.tokenizer.budgets[0]
        for wanted in self.tokenizer.budgets:
            time.sleep(self.stage_s)
            reached = wanted
            left_ms = 1e9 if deadline_ms is None else deadline_ms
            left_ms -= 1000 * (time.perf_counter() - began + self.stage_s)
            if wanted == budget or left_ms < 0:
                break
        return self._policy.predict_action_chunk(observation, budget=reached, **sampling)

    def _has_poison(self, observations: Observations) -> bool:
        assert self.spec.state is not None
        assert self.poison is not None
        poison = self.spec.state.normalize(torch.full((self.spec.state_dim,), self.poison))
        return bool((observations.state == poison).all(dim=-1).any())
