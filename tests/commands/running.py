"""Commands as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit import cli


def run_command(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    try:
        code = cli.main(args)
    except SystemExit as stop:  # tyro's --help and parse errors
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def train_policy(data: Path, out: Path, *flags: str) -> int:
    """Run `oatkit policy train` on a tiny preset; gives its exit code."""
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny")
    return cli.main(["policy", "train", *shared, *flags])
