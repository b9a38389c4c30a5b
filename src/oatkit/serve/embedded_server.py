"""A server in a thread of this process, for tests, notebooks and examples."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping

from oatkit.policies import Policy
from oatkit.serve.serve_config import ServeConfig
from oatkit.serve.server import PolicyServer


@contextlib.contextmanager
def serving(
    policy: Policy | Mapping[str, Policy], config: ServeConfig | None = None
) -> Iterator[str]:
    """A running server as a context that gives its address.

    Args:
        policy: Policy that answers, or those of several robots by their names.
        config: How it is served; on any free port of this machine by default.
    """
    server = PolicyServer(policy, config or ServeConfig(port=0))
    server.start()
    urls: list[str] = []
    failures: list[BaseException] = []
    has_begun = threading.Event()
    handles: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        handles.append((asyncio.get_running_loop(), stop))

        def is_ready(url: str) -> None:
            urls.append(url)
            has_begun.set()

        await server.run(stop, is_ready)

    def main() -> None:
        try:
            asyncio.run(run())
        except OSError as error:  # the port is taken
            failures.append(error)
        finally:
            has_begun.set()

    thread = threading.Thread(target=main, name="oatkit-serve")
    thread.start()
    has_begun.wait()
    if failures:
        thread.join()
        raise failures[0]
    try:
        yield urls[0]
    finally:
        loop, stop = handles[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
