"""The flow head of a policy that `oatkit export` wrote: Euler steps from noise, in numpy.

Shape letters: B batch of one, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from oatkit_client.exported_files import open_model

REPEATS = 3
"""How often the duration of a step is measured, for deadlines."""


class LocalFlow:
    """Integrates chunks from noise.

    Args:
        folder: Folder that `oatkit export` wrote for a policy with a flow head.
        facts: Content of its `export.json`.
    """

    def __init__(self, folder: str | os.PathLike[str], facts: Mapping[str, Any]) -> None:
        self._policy = facts["policy"]
        self._normalization = facts["normalization"]
        self._step = open_model(Path(folder) / self._policy["step"]["file"])
        self._step_s: float | None = None
        self.chunk_shape = (facts["horizon"], facts["action_dim"])
        """Number of steps of a chunk, and of action dimensions."""
        self.num_steps: int = self._policy["num_steps"]
        """Number of Euler steps where no budget is named."""

    def resolve_steps(self, budget: Any) -> int:
        """Number of Euler steps that a budget asks for; an error names what is possible."""
        default, most = self._policy["num_steps"], self._policy["max_steps"]
        wanted = default if budget is None else budget
        is_number = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
        if not is_number or not 1 <= wanted <= most:
            raise ValueError(
                f"budget is {budget!r}, expected a number of Euler steps from 1 to {most}: a flow "
                "head acts"
            )
        return int(wanted)

    def steps_until(self, deadline: float, num_steps: int) -> int:
        """Largest number of steps, `num_steps` at most, that ends before the deadline; the smallest
        where none does."""
        assert self._step_s is not None
        left_s = deadline - time.perf_counter()
        choices = [*(steps for steps in self._policy["budgets"] if steps < num_steps), num_steps]
        fits = [steps for steps in choices if steps * self._step_s <= left_s]
        return max(fits, default=choices[0])

    def integrate(self, context: Mapping[str, Any], noise_TA: Any, num_steps: int) -> Any:
        """The chunk (T, A) in raw units.

        Args:
            context: What the encoder gave.
            noise_TA: Where to start, normalized units.
            num_steps: Number of Euler steps.
        """
        point_BTA = np.asarray(noise_TA, np.float32)[None]
        for step in range(num_steps):
            now_B = np.array([1 - step / num_steps], np.float32)
            (velocity_BTA,) = self._step.run(
                ["velocity"], {"point": point_BTA, "time": now_B, **context}
            )
            point_BTA = point_BTA - velocity_BTA / np.float32(num_steps)
        facts = self._normalization
        scale_A, offset_A = (np.asarray(facts[name], np.float32) for name in ("scale", "offset"))
        # dimensions that were always the same in training come back as their offset
        is_held_A = np.asarray(facts.get("is_held", False))
        return np.where(is_held_A, np.float32(0), point_BTA[0] * scale_A) + offset_A

    def measure_once(self, context: Mapping[str, Any]) -> float:
        """Measure how long a step takes here, the first time; gives the seconds that measuring
        took."""
        if self._step_s is not None:
            return 0.0
        began = time.perf_counter()
        noise_TA, times = np.zeros(self.chunk_shape), []
        for _ in range(REPEATS + 1):  # the first warms up
            before = time.perf_counter()
            self.integrate(context, noise_TA, 2)
            times.append((time.perf_counter() - before) / 2)
        self._step_s = float(np.median(times[1:]))
        return time.perf_counter() - began
