"""Servers that answer with something else than a websocket: one sentence, whatever they say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from oatkit_client import Client, ConnectionFailed, Refused


@contextmanager
def talker(words: bytes, *, hangs_up: bool) -> Iterator[str]:
    """Says the same to whoever comes, without listening; the address of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                connection.sendall(words)
                if hangs_up:
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


@pytest.mark.parametrize("hangs_up", [True, False])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "invalid HTTP status line: SSH-2.0-OpenSSH_9.2"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "status 200"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"),
        (b"HTTP/1.0 200 OK\r\n\r\nhi", "unsupported protocol"),
    ],
)
def test_a_server_of_something_else_answers_but_is_refused(
    words: bytes, why: str, hangs_up: bool
) -> None:
    message = (
        rf"answers, but does not speak the protocol of a policy server \({why}.*`oatkit serve`"
    )
    with talker(words, hangs_up=hangs_up) as url:
        for _ in range(8):  # whether the words come before our request is a matter of chance
            with Client(url, timeout_s=1.5) as client, pytest.raises(Refused, match=message):
                client.infer({})


def test_a_server_that_fails_answers_all_the_same() -> None:
    words = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
    with (
        talker(words, hangs_up=True) as url,
        Client(url, timeout_s=0.3) as client,
        pytest.raises(ConnectionFailed, match=r"answers, but takes no client \(status 502\)"),
    ):
        client.infer({})


def test_a_server_that_says_nothing_may_come_back() -> None:
    with (
        talker(b"", hangs_up=True) as url,
        Client(url, timeout_s=0.3) as client,
        pytest.raises(ConnectionFailed, match="cannot be reached"),
    ):
        client.infer({})
