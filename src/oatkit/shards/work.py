"""What a piece of work says of itself, so that its units can be run anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol


class Work(Protocol):
    """Work that is cut into units.

    A unit has a stable key and gives one result of JSON values, which depends on the settings and
    the key alone: not on the shard that runs it, nor on the units beside it. Times that were
    measured are therefore no part of a result.

    Attributes:
        name: Which function joins the results; a name of `oatkit.jobs.shard_table`.
        settings: JSON values that decide every result. Records of other settings are refused.
        facts: JSON values that joining needs beside these; they decide nothing.
    """

    name: str
    settings: dict[str, Any]
    facts: dict[str, Any]

    def units(self) -> Sequence[str]:
        """The keys of all units, in the order in which they are dealt to the shards."""

    def run(self, keys: Sequence[str], folder: Path) -> Iterable[tuple[str, Any]]:
        """Run some units; gives key and result of each as it ends.

        Args:
            keys: Units to run, none of which is finished.
            folder: Folder of the run, which all shards share, for files beside the results.
        """
