"""Servers that are not ours, in threads: one of openpi's kind, and some that speak otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from oatkit_client.wire import pack, unpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve


@contextmanager
def answering(handle: Callable[[ServerConnection], None]) -> Iterator[str]:
    """A websocket server; gives its address."""

    def guarded(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            handle(connection)

    with serve(guarded, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


@contextmanager
def openpi_server(
    horizon: int = 10, action_dim: int = 2, reply: dict[str, Any] | None = None
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server as openpi has it: empty metadata, then actions for every observation.

    Gives its address and the messages that it got.
    """
    messages: list[dict[str, Any]] = []
    chunk = np.full((horizon, action_dim), 0.5)  # of float64, as theirs is

    def handle(connection: ServerConnection) -> None:
        connection.send(pack({}))
        for message in connection:
            messages.append(unpack(message))
            found = {"actions": chunk, "policy_timing": {"infer_ms": 1.0}}
            connection.send(pack(found if reply is None else reply))

    with answering(handle) as url:
        yield url, messages
