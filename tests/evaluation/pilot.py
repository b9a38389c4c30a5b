"""A policy without weights, true to the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from oatkit.data import Normalizer
from oatkit.envs.simulator import STATE_KEY, ImageSize
from oatkit.errors import DecodeError
from oatkit.policies import Prediction
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.types import Sampling
from tests.evaluation.plane import HORIZON, TASKS


class Pilot:
    """Heads for the goal, with noise from the generators; fewer tokens are slower."""

    def __init__(self, *, history: int = 2, cameras: dict[str, ImageSize] | None = None) -> None:
        state = Normalizer("identity", np.zeros(4), np.ones(4))
        self.spec = ObservationSpec(history, state, cameras or {}, tuple(TASKS.values()))
        self.asked: list[dict[str, Any]] = []
        self.noise = 0.3

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Any,
        schedule: Any = None,
        sampling: Sampling,
        generator: Any,
    ) -> Prediction:
        read_observation(self.spec, observation)  # checks it
        state_B4 = observation[STATE_KEY][:, -1]
        self.asked.append({**observation, "budget": budget})
        rows = []
        for state, own in zip(state_B4, generator, strict=True):
            at, goal = state[:2].copy(), state[2:]
            speed = 1.0 if budget == "auto" else min(1.0, budget / 4)
            chunk = []
            for _ in range(HORIZON):
                noise = self.noise * sampling.temperature * torch.randn(2, generator=own).numpy()
                action = np.clip((goal - at) * 10, -speed, speed) + noise
                at = at + 0.1 * action
                chunk.append(action)
            rows.append(chunk)
        size = len(rows)
        tokens = np.full(size, 4 if budget == "auto" else budget)
        return Prediction(
            chunk=self.spoil(np.array(rows)),
            ids=None,
            entropy_bits=None,
            budget=tokens,
            calls=tokens,
            draws=np.ones(size, int),
            elapsed_ms=1.0,
        )

    def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
        return chunk_BTA


class Mute(Pilot):
    """Has no chunk for goals on one side, as a strict `fast` may not."""

    def predict_action_chunk(self, observation: Mapping[str, Any], **rest: Any) -> Prediction:
        if (observation[STATE_KEY][:, -1, 2] > 0.75).any():
            raise DecodeError("1 of 1 sequences did not decode in 10 draws")
        return super().predict_action_chunk(observation, **rest)
