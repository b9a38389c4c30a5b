"""A policy server of a few lines in a process of its own, which tests kill and start again.

Its chunk holds, at step t of an observation x, the number x + t.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HORIZON = 8


def main() -> None:
    """Answer on the port of the command line until killed."""
    import numpy as np
    from oatkit_client.wire import pack, unpack
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.server import ServerConnection, serve

    def answer(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            connection.send(pack({}))
            for message in connection:
                begin = float(unpack(message)["x"])
                chunk = (begin + np.arange(HORIZON, dtype=np.float32))[:, None]
                connection.send(pack({"actions": chunk}))

    with serve(answer, "127.0.0.1", int(sys.argv[1]), compression=None) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        server.serve_forever()


class MortalServer:
    """The process.

    Args:
        port: Port that it always listens on.
    """

    def __init__(self, port: int) -> None:
        self.url = f"ws://127.0.0.1:{port}"
        self._command = [sys.executable, __file__, str(port)]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it listens."""
        while True:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            if self._process.stdout.readline():
                return
            self.kill()
            time.sleep(0.05)  # the port of the one before is not free yet

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextmanager
def mortal_server(port: int) -> Iterator[MortalServer]:
    """A server that is not started; killed at the end."""
    server = MortalServer(port)
    try:
        yield server
    finally:
        server.kill()


if __name__ == "__main__":
    main()
