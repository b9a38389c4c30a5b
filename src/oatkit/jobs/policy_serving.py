"""A policy server in the foreground of a process, until a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable

from oatkit.serve import PolicyServer

SWITCH_INTERVAL_S = 0.0005
"""How long inference may hold the interpreter while the event loop waits for it."""


def serve_until_stopped(server: PolicyServer, is_ready: Callable[[str], None]) -> None:
    """Warm up and listen until SIGTERM or SIGINT, then answer the requests that wait.

    Args:
        server: A server that is not started.
        is_ready: Called with the address when the server listens.
    """
    server.start()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()  # what is loaded stays: looking through it again costs deadlines
    asyncio.run(_until_signal(server, is_ready))


async def _until_signal(server: PolicyServer, is_ready: Callable[[str], None]) -> None:
    """A second signal ends the process without waiting for requests."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def finish() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, finish)
    await server.run(stop, is_ready)
