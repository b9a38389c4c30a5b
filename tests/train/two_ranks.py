"""Two processes of one training on a CPU, started as `torchrun` and `accelerate launch` start them.

`accelerate launch --cpu --num_processes 2` itself starts a single process unless MPI is there, so
the tests go through `torch.distributed.run`, which it uses for GPUs, with what it sets for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def launch_two(
    *arguments: str, is_sharded: bool = False, precision: str = "no"
) -> subprocess.Popen[str]:
    """Start two processes that run this file: a command of oatkit, or a script ending in .py."""
    settings = {
        "ACCELERATE_USE_CPU": "true",
        "ACCELERATE_USE_FSDP": str(is_sharded).lower(),
        "ACCELERATE_MIXED_PRECISION": precision,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path))),
    }
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    return subprocess.Popen(
        [*launcher, "--nproc-per-node", "2", "-m", "tests.train.two_ranks", *arguments],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_two(*arguments: str, **how: Any) -> str:
    """Let two processes run to their end; gives what they printed."""
    started = launch_two(*arguments, **how)
    said, _ = started.communicate(timeout=600)
    assert started.returncode == 0, said
    return said


def main() -> int:
    """Run what is asked for, and make sure that it ran in two processes."""
    import runpy

    from accelerate.state import PartialState

    from oatkit import cli

    result = 0
    if sys.argv[1].endswith(".py"):
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        result = cli.main(sys.argv[1:])
    assert PartialState().num_processes == 2
    return result


if __name__ == "__main__":
    sys.exit(main())
