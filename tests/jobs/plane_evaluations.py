"""Evaluations in the plane, and what to compare of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from oatkit.jobs.policy_evaluation import evaluate
from oatkit.storage.records import record_from_json
from oatkit.types import PolicyEvaluation
from tests.evaluation.plane import PLANE

Eval = Callable[..., PolicyEvaluation]


def run_in_plane(policy: Path, folder: Path) -> Eval:
    """What evaluates a policy on two tasks and budgets, three episodes each, unless told else."""

    def run(name: str = "a", **changed: Any) -> PolicyEvaluation:
        wanted: dict[str, Any] = {"tasks": ("near", "far"), "episodes": 3, "budgets": (1, 4)}
        wanted |= {"policy": policy, "simulator": PLANE, "out": folder / name, "workers": 1}
        return evaluate(**(wanted | changed))

    return run


def outcomes(record: PolicyEvaluation) -> list[dict[str, Any]]:
    """All of a record's episodes but their times and last digits.

    The last digits of a chunk depend on how many chunks are decoded at once.
    """
    return [
        {key: round(v, 5) if isinstance(v, float) else v for key, v in asdict(e).items()}
        | {"latency_ms": 0.0}
        for e in record.episodes
    ]


def read(path: Path) -> PolicyEvaluation:
    return record_from_json(PolicyEvaluation, json.loads(path.read_text()))
