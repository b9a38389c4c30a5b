"""Result records that grow as a long job goes on, so that the same command resumes it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from oatkit.errors import ArtifactError
from oatkit.storage.atomic_write import written_whole
from oatkit.storage.records import record_from_json
from oatkit.types import (
    DemoRecord,
    PolicyEvaluation,
    PolicySweep,
    TokenizerComparison,
    TokenizerSweep,
)

Growing = TypeVar(
    "Growing",
    TokenizerComparison,
    TokenizerSweep,
    PolicyEvaluation,
    PolicySweep,
    DemoRecord,
)


def read_or_begin(path: Path, begun: Growing) -> Growing:
    """The record at `path` if it has the settings of `begun`, an error if others, else `begun`."""
    if not path.exists():
        return begun
    try:
        found: Growing = record_from_json(type(begun), json.loads(path.read_text()))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArtifactError(f"{path} is no readable {begun.schema} record ({error})") from error
    wanted: dict[str, Any] = json.loads(json.dumps(begun.settings))
    different = [
        f"{name} (was {found.settings.get(name)}, now {wanted.get(name)})"
        for name in sorted({*found.settings, *wanted})
        if found.settings.get(name) != wanted.get(name)
    ]
    if different:
        raise ArtifactError(
            f"{path} was made with another {', '.join(different)}: use the same options, another "
            "--out, or remove it"
        )
    return found


def write_record(path: Path, record: Growing) -> None:
    """Write the record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as aside:
        aside.write_text(json.dumps(asdict(record), indent=1) + "\n")


def require_free(folder: Path, record: Path) -> None:
    """Refuse a folder with an artifact in it that the record does not account for."""
    if (folder / "config.json").exists() or (folder / "checkpoints").exists():
        raise ArtifactError(
            f"{folder} holds an artifact, but {record} does not say how it was made: use another "
            "--out, or remove it"
        )
