"""The first exchange with a server, and what to say where it is no policy server."""

from __future__ import annotations

from typing import Any

from websockets.exceptions import (
    ConnectionClosed,
    InvalidHeader,
    InvalidMessage,
    InvalidStatus,
)
from websockets.sync.client import ClientConnection


class CheckedConnection(ClientConnection):
    """A connection whose handshake fails with what the server said, if it said anything.

    A server that speaks before it is asked, as SSH servers do, breaks an assertion inside
    websockets where its words come before our request leaves; and one that answers with something
    else and keeps the connection open makes websockets wait until the time is over.
    """

    def handshake(self, *args: Any, **options: Any) -> None:
        """Perform the opening handshake; the arguments are those of websockets."""
        try:
            super().handshake(*args, **options)
        except (AssertionError, ConnectionClosed, TimeoutError) as error:
            found = self.protocol.handshake_exc
            if found is None:
                raise
            raise found from found.__cause__ or error


def unreachable(url: str, error: Exception) -> str:
    """What to say of a server from which nothing came."""
    why = str(error) or type(error).__name__
    return f"{url} cannot be reached ({why}): is `oatkit serve` running there?"


def unwilling(url: str, error: InvalidStatus) -> str:
    """What to say of a server that is there but takes no more clients."""
    body = (error.response.body or b"").decode(errors="replace").strip()
    why = body.partition("\n")[0][:80] or f"status {error.response.status_code}"
    return f"{url} answers, but takes no client ({why}): is `oatkit serve` running there?"


def refusal(url: str, status: int) -> str:
    """What to say of a server that answers with a status of HTTP."""
    if status in (401, 403):
        return f"{url} refuses this client ({status}): the API key is missing or wrong"
    return foreign(url, f"status {status}")


def is_foreign(error: Exception) -> bool:
    """Whether something answered that is no websocket; where nothing came, it may come later."""
    is_answer = isinstance(error, (InvalidMessage, InvalidHeader))
    return is_answer and not isinstance(error.__cause__, (EOFError, OSError))


def foreign(url: str, why: str) -> str:
    """What to say of a server of something else."""
    return (
        f"{url} answers, but does not speak the protocol of a policy server ({why}): give the "
        "address of `oatkit serve`"
    )
