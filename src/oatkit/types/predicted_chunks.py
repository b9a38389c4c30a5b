"""What a policy answers, wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
