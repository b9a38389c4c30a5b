"""`oatkit demo`: from demonstrations to a policy in the simulator, and a report of it all."""

from __future__ import annotations

from rich.console import Console

from oatkit.jobs.demo_run import Demo, run_demo


def run(options: Demo, console: Console) -> int:
    return run_demo(options, console)
