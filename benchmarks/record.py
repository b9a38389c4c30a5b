"""Where a benchmark's numbers go, with what they depend on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "pyarrow", "torch")


def write_result(name: str, *, seed: int, settings: dict[str, Any], results: Any) -> Path:
    """Save `results` beside commit, seed, versions and machine."""
    record = {
        "schema": f"oatkit/benchmark/{name}",
        "version": 1,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "seed": seed,
        "settings": settings,
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "results": results,
    }
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"wrote {path}")
    return path


def read_results(name: str) -> dict[str, Any]:
    """The results that were saved before; empty where there are none."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())["results"]) if path.exists() else {}


def _commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "../src"], capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + (" with changes" if changed.stdout.strip() else "")


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.split(": ")[1] for x in lines if x.startswith("model name")), platform.machine())
