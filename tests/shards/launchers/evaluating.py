"""An evaluation in a fast simulator that the processes of a launcher have, too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SITE = """
from oatkit.envs.simulator_table import SIMULATORS
from tests.evaluation.plane import PLANE

SIMULATORS["pusht"] = PLANE
"""
FEW = ("--env", "pusht", "--tasks", "near", "far", "--episodes", "2", "--workers", "1")
NUM_UNITS = 4


def evaluate_in_the_plane(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, before: str = ""
) -> None:
    """Let every process that is started from now on have the plane in place of PushT.

    Args:
        folder: Where to put what Python reads first.
        monkeypatch: Changes the environment.
        before: What else it does.
    """
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(before + SITE)
    paths = (folder / "site", ROOT, *sys.path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))


def evaluating(policy: str, out: Path, *flags: str) -> list[str]:
    """The words of the command.

    Args:
        policy: Folder of the policy, or address of its server.
        out: Folder of the shards.
        flags: What else the command has.
    """
    named = ("--remote", policy) if policy.startswith("ws://") else (policy,)
    return ["policy", "eval", *named, *FEW, *flags, "--out", str(out)]
