"""Reads a recording back with Rerun's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

Recorded = dict[str, dict[str, list[tuple[int | None, Any]]]]
"""Entity to component to (step, values); a step of None holds for the whole recording."""


def read_recording(path: Path) -> Recorded:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    from rerun.chunk import RrdReader

    found: Recorded = {}
    for chunk in RrdReader(path).stream():
        batch = chunk.to_record_batch()
        names = batch.schema.names
        steps = batch["step"].to_pylist() if "step" in names else [None] * len(batch)
        for name in names:
            if ":" in name and not chunk.entity_path.startswith("/__properties"):
                component = name.split(":")[1]
                own = found.setdefault(chunk.entity_path, {}).setdefault(component, [])
                own += zip(steps, batch[name].to_pylist(), strict=True)
    for components in found.values():
        for values in components.values():
            values.sort(key=lambda pair: -1 if pair[0] is None else pair[0])
    return found
