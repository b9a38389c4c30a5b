"""A chunk and what was generated for it, and how a caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from oatkit.nn.device import read_clock
from oatkit.policies.generation.auto_execution import AutoExecution, mean_entropy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.observation.observations import Observations
from oatkit.types import STOP_REASONS, Budget, Sampling, Schedule


@dataclass(frozen=True, eq=False)
class Prediction:
    """A chunk and what was generated for it.

    Arrays are like those of the observation: torch for torch, else numpy; without the leading axis
    where the observation was one frame. What `policy.read` gave is answered with numpy.

    Attributes:
        chunk: (B, horizon, action_dim) raw units.
        ids: (B, K) all ids that were generated.
        entropy_bits: (B, K) uncertainty of the network about each id, before sampling rules.
        budget: (B,) how many leading ids the chunk was decoded from.
        calls: (B,) number of stages that were run for them.
        attempts: (B,) 1, or more where a sequence did not decode and was generated again.
        elapsed_ms: Time from the observation to the chunk.
        execute_steps: (B,) number of steps that are worth executing, as the policy itself finds;
            None where that was not calibrated.
        draws: (B, D, horizon, action_dim) chunks of all draws, the first of which is `chunk`; None
            where there is one draw. All else is of the first draw.
        stopped: Why generation stopped, one of `STOP_REASONS`; a list of B of them, or one where
            the observation was one frame; None where the policy does not say.
    """

    chunk: Any
    ids: Any
    entropy_bits: Any
    budget: Any
    calls: Any
    attempts: Any
    elapsed_ms: float
    execute_steps: Any = None
    draws: Any = None
    stopped: Any = None


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
    """

    budget: Budget = None
    schedule: Schedule | None = None
    sampling: Sampling = Sampling()
    generator: Generators = None
    deadline_ms: float | None = None
    thresholds: AutoThresholds | None = None
    execution: AutoExecution | None = None
    draws: int = 1


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
