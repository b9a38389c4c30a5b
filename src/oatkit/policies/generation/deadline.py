"""When a chunk must be there, and with how many tokens it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from oatkit.nn.device import read_clock
from oatkit.types import Schedule


@dataclass(frozen=True)
class Latency:
    """Expected time of the parts of a prediction, in milliseconds.

    Attributes:
        stages_ms: Time of each stage.
        decode_ms: Time to decode the tokens.
    """

    stages_ms: tuple[float, ...]
    decode_ms: float

    def scaled(self, factor: float) -> Latency:
        """The same where everything takes so many times as long."""
        return Latency(tuple(factor * ms for ms in self.stages_ms), factor * self.decode_ms)


def ms_between(measured: Mapping[int, Sequence[float]], num_rows: int) -> list[float] | None:
    """Times for a number of rows, on the line between fewer and more that were measured; None
    where it is not between any.

    Args:
        measured: Number of rows to the measured times of the parts.
        num_rows: Number of rows to give them for.
    """
    sizes = sorted(measured)
    if not sizes or not sizes[0] <= num_rows <= sizes[-1]:
        return None
    parts = zip(*(measured[size] for size in sizes), strict=True)
    return [float(np.interp(num_rows, sizes, part)) for part in parts]


@dataclass(frozen=True)
class Deadline:
    """The time at which a chunk must be there.

    Attributes:
        at: Moment on the clock of `time.perf_counter`.
        latency: Time that the parts of the prediction are expected to take.
        device: Where they are computed.
    """

    at: float
    latency: Latency
    device: torch.device

    def allows(self, num_done: int, num_calls: int) -> bool:
        """Whether the stages after `num_done`, up to `num_calls`, and decoding are in time."""
        needed = sum(self.latency.stages_ms[num_done:num_calls]) + self.latency.decode_ms
        return read_clock(self.device) + needed / 1000 <= self.at

    def final_budget(
        self, schedule: Schedule, num_calls: int, most: int, trained: Sequence[int]
    ) -> int | None:
        """The budget to stop at after `num_calls` stages; None where the next one is in time.

        Args:
            schedule: Endpoints of the stages.
            num_calls: Number of stages that were run.
            most: Largest number of tokens to generate.
            trained: Budgets that the tokenizer was trained on.
        """
        reached = min(schedule.endpoints[num_calls - 1], most)
        smaller = [budget for budget in trained if budget < most]
        goal = next((budget for budget in smaller if budget > reached), most)
        if reached == most or self.allows(num_calls, schedule.calls_for(goal)):
            return None
        # tokens between two trained budgets were generated on the way to the second
        return max((budget for budget in smaller if budget <= reached), default=reached)
