"""How a caller asks for a chunk, and how what was generated becomes the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from oatkit.nn.device import read_clock
from oatkit.policies.generation.auto_execution import AutoExecution, mean_entropy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.observation.observations import Observations
from oatkit.types import STOP_REASONS, Budget, Prediction, Sampling, Schedule


@dataclass(frozen=True)
class PredictionOptions:
    """How a chunk is predicted: the arguments of `Policy.predict_action_chunk`, and what was found
    in calibration.

    Attributes:
        budget: Largest number of tokens, "auto", or None for all.
        schedule: Blocks in which tokens are generated; None for those of training.
        sampling: Rules by which ids are chosen.
        generator: Random numbers, instead of the seed of `sampling`.
        deadline_ms: Time in which the chunk must be there; None for no hurry.
        thresholds: Thresholds of "auto"; None where they were not calibrated.
        execution: How many steps are worth executing; None where that was not calibrated.
        draws: Number of chunks for each observation.
        committed: Actions that chunks have to begin with; None or no steps where nothing is.
    """

    budget: Budget = None
    schedule: Schedule | None = None
    sampling: Sampling = Sampling()
    generator: Generators = None
    deadline_ms: float | None = None
    thresholds: AutoThresholds | None = None
    execution: AutoExecution | None = None
    draws: int = 1
    committed: Any = None

    @property
    def has_committed(self) -> bool:
        """Whether there are actions that chunks have to begin with."""
        return self.committed is not None and 0 not in np.shape(self.committed)


def to_prediction(
    generated: GeneratedChunks,
    observation: Mapping[str, Any] | Observations,
    *,
    is_single_frame: bool,
    began: float,
    options: PredictionOptions,
) -> Prediction:
    """The arrays of a prediction, like those of the observation.

    Args:
        generated: Tensors of the whole batch, draw after draw.
        observation: The observation as it was given.
        is_single_frame: Whether it was one frame, which is answered without a batch axis.
        began: When the prediction began, on the clock of `time.perf_counter`.
        options: How it was asked for.
    """
    given: list[Tensor] = []
    if not isinstance(observation, Observations):
        given = [value for value in observation.values() if isinstance(value, Tensor)]

    batch_size = len(generated.chunk) // options.draws

    def converted(values: Tensor) -> Any:
        values = values[0] if is_single_frame else values[:batch_size]
        return values.to(given[0].device) if given else values.cpu().numpy()

    shape = (options.draws, batch_size, *generated.chunk.shape[1:])
    draws_BDTA = generated.chunk.reshape(shape).transpose(0, 1)
    stopped = [STOP_REASONS[code] for code in generated.stopped[:batch_size].tolist()]
    steps_B = None
    if options.execution is not None:
        steps_B = options.execution.steps(mean_entropy(generated))
    return Prediction(
        chunk=converted(generated.chunk),
        ids=converted(generated.tokens.ids),
        entropy_bits=converted(generated.entropy_bits),
        budget=converted(generated.tokens.lengths),
        calls=converted(generated.calls),
        attempts=converted(generated.attempts),
        elapsed_ms=1000 * (read_clock(generated.chunk.device) - began),
        execute_steps=None if steps_B is None else converted(steps_B),
        draws=None if options.draws == 1 else converted(draws_BDTA),
        stopped=stopped[0] if is_single_frame else stopped,
    )
