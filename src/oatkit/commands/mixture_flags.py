"""What training on a mixture of robots does not take, and what it says at the end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oatkit.data.mixture import Mixture


def refuse_with_mixture(flags: Mapping[str, Any]) -> None:
    """Raise if a flag that is for one dataset was given beside a mixture.

    Args:
        flags: Names of flags to their values; None where one was not given.
    """
    for name, value in flags.items():
        if value is not None:
            raise ValueError(f"--{name} is for one dataset, not for a mixture: leave it out")


def measure_first(command: str, mixture: Mixture, out: Path) -> str:
    """The line that says how to measure what was trained for the first robot of a mixture.

    Args:
        command: Words of the command, such as `policy measure`.
        mixture: The robots.
        out: Folder with an artifact for each.
    """
    first = mixture.members[0]
    folder, data = (shlex.quote(str(path)) for path in (out / first.name, first.dataset.path))
    return f"next: oatkit {command} {folder} --data {data}"
