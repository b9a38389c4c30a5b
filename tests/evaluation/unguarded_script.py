"""A script without `if __name__ == "__main__":`, run as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def require_one_sentence(script: Path) -> None:
    """Assert that the script ends with one traceback, which says what it lacks."""
    paths = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert ran.returncode == 1
    assert ran.stderr.count("Traceback") == 1, ran.stderr
    assert 'put what it does under `if __name__ == "__main__":`' in ran.stderr.splitlines()[-1]
