"""A policy without weights, true to the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from oatkit.data import Normalizer
from oatkit.envs.simulator import ImageSize
from oatkit.errors import DecodeError
from oatkit.policies import Prediction
from oatkit.policies.generation.random_rows import start_generators
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types import Sampling
from oatkit.types.observation_keys import IMAGES, STATE, TASK
from tests.evaluation.plane import HORIZON, TASKS


class Pilot:
    """Heads for the goal, with noise from the generators; fewer tokens are slower."""

    def __init__(self, *, history: int = 2, cameras: dict[str, ImageSize] | None = None) -> None:
        state = Normalizer("identity", np.zeros(4), np.ones(4))
        self.spec = ObservationSpec(history, state, cameras or {}, tuple(TASKS.values()))
        self.asked: list[dict[str, Any]] = []
        self.noise = 0.3
        self.worth: int | None = None

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        return read_observation(self.spec, observation, allow_more=allow_more)

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Any = None,
        schedule: Any = None,
        sampling: Sampling = Sampling(),
        generator: Any = None,
        deadline_ms: float | None = None,
        draws: int = 1,
        committed: Any = None,
    ) -> Prediction:
        read = observation if isinstance(observation, Observations) else self.read(observation)
        self.asked.append(self._seen(read) | {"budget": budget, "committed": committed})
        state_B4 = read.state[:, -1].numpy()
        rows = []
        for state, own in zip(state_B4, start_generators(generator), strict=True):
            at, goal = state[:2].copy(), state[2:]
            speed = 1.0 if budget == "auto" else min(1.0, budget / 4)
            chunk = []
            for _ in range(HORIZON):
                noise = self.noise * sampling.temperature * torch.randn(2, generator=own).numpy()
                action = np.clip((goal - at) * 10, -speed, speed) + noise
                at = at + 0.1 * action
                chunk.append(action)
            rows.append(chunk)
        size, chunk_BTA = len(rows), self.spoil(np.array(rows))
        tokens = np.full(size, 4 if budget == "auto" else budget)
        return Prediction(
            chunk=chunk_BTA,
            ids=None,
            entropy_bits=None,
            budget=tokens,
            calls=tokens,
            attempts=np.ones(size, int),
            elapsed_ms=1.0,
            execute_steps=None if self.worth is None else np.full(size, self.worth),
            draws=None if draws == 1 else self.more(chunk_BTA, draws),
        )

    def _seen(self, read: Observations) -> dict[str, Any]:
        """What was read by LeRobot's keys again, images (B, history, H, W, 3)."""
        images = zip(self.spec.cameras, read.images, strict=True)
        return {
            STATE: read.state.numpy(),
            TASK: [self.spec.tasks[index] for index in read.task],
            **{f"{IMAGES}{name}": image.movedim(2, -1).numpy() for name, image in images},
        }

    def more(self, chunk_BTA: np.ndarray, draws: int) -> np.ndarray:
        """All draws, of which the later ones lead ever more astray."""
        astray_D = 5.0 * np.arange(draws)
        return chunk_BTA[:, None] + astray_D[:, None, None]

    def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
        return chunk_BTA


class Mute(Pilot):
    """Has no chunk for goals on one side, as a strict `fast` may not."""

    def predict_action_chunk(self, observation: Any, **rest: Any) -> Prediction:
        is_read = isinstance(observation, Observations)
        state = observation.state if is_read else observation[STATE]
        if (state[:, -1, 2] > 0.75).any():
            raise DecodeError("1 of 1 sequences did not decode in 10 attempts")
        return super().predict_action_chunk(observation, **rest)
