"""Bytes that torch's CPU allocator really handed out, as its profiler sees them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def measured_peak(run: Callable[[], object]) -> int:
    """The most bytes that a function held at once, beyond those that were there before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    found = profiler.profiler.kineto_results.events()
    events = [event for event in found if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    assert events
    return peak


def test_a_tensor_is_measured_while_it_lives() -> None:
    def run() -> None:
        for _ in range(3):
            torch.zeros(1000)

    assert 4000 <= measured_peak(run) < 8000
