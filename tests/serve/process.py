"""`oatkit serve` in a process of its own, as an operator runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServerProcess:
    """The command and where it listens."""

    process: subprocess.Popen[str]
    url: str

    def rss_mb(self) -> float:
        """What it holds in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def started(folder: Path, *flags: str, port: int = 0) -> Iterator[ServerProcess]:
    """Yields once it listens; kills it at the end."""
    command = [sys.executable, "-u", "-m", "oatkit.cli", "serve", str(folder)]
    with subprocess.Popen(
        [*command, "--port", str(port), "--max-batch", "2", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = None
            while url is None:
                line = process.stdout.readline()
                assert line, process.stderr and process.stderr.read()
                url = re.search(r"at (wss?://\S+)", line)
            yield ServerProcess(process, url[1])
        finally:
            process.kill()
