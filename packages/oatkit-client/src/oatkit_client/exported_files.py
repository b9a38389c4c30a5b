"""The folder that `oatkit export` writes: one JSON that describes it, and ONNX files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

DESCRIPTION = "export.json"
SCHEMA, VERSION = "oatkit/export", 1


def read_description(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON of an exported folder; raises where it is missing or of a later version."""
    path = Path(folder) / DESCRIPTION
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError as error:
        what = f"holds no {DESCRIPTION}" if Path(folder).is_dir() else "is no folder"
        raise ValueError(f"{folder} {what}: `oatkit export POLICY --out DIR` writes one") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    schema, version = facts.get("schema"), facts.get("version")
    if schema != SCHEMA or not isinstance(version, int):
        raise ValueError(f"{path} has the schema {schema!r}, expected {SCHEMA!r}")
    if version > VERSION:
        raise ValueError(
            f"{path} has version {version} of {SCHEMA}, this client reads up to {VERSION}: "
            "install a later oatkit-client"
        )
    return facts


def open_model(file: Path) -> Any:
    """An ONNX file, ready to run on the CPU."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("this needs ONNX Runtime: pip install 'oatkit-client[onnx]'") from error
    options = onnxruntime.SessionOptions()
    # waiting threads would take the cores from what moves the robot
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
