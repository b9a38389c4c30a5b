"""What can go wrong on the robot's side.

ClientError
├── ConnectionFailed   the server cannot be reached, or was lost and did not come back
├── Refused            the API key is missing or wrong, the certificate is not trusted, the address
│                      speaks no websocket, or the decoder is of another tokenizer
├── RequestTimeout     no reply in time (also a TimeoutError)
├── ServerError        the server could not answer this request; the message is the server's
│   ├── ServerBusy     its queue is full
│   └── NoChunk        the generated tokens are no chunk (`fast`, strict decoding)
└── StepLate           a step has no action within its limit (also a TimeoutError)
"""

from __future__ import annotations

from typing import Any


class ClientError(Exception):
    """Anything that kept an answer from arriving."""


class ConnectionFailed(ClientError, ConnectionError):  # noqa: N818  reads well where it is caught
    """The server cannot be reached, or was lost and did not come back in time."""


class Refused(ClientError):  # noqa: N818
    """The server refuses this client, so that trying again is of no use."""


class RequestTimeout(ClientError, TimeoutError):  # noqa: N818
    """There was no reply in time."""


class ServerError(ClientError):
    """The server could not answer this request; the message is its own."""


class ServerBusy(ServerError):  # noqa: N818
    """The server's queue is full; the same request may succeed later."""


class NoChunk(ServerError):  # noqa: N818
    """The tokens that the policy generated are no chunk; other observations may have one."""


class StepLate(ClientError, TimeoutError):  # noqa: N818
    """A step has no action within its limit; the request goes on, so the next step may have one."""


def shortened(value: Any) -> str:
    """What a sentence shows of a value that somebody sent, however large it is."""
    text = repr(value[:100] if isinstance(value, (list, str)) else value)
    return text if len(text) <= 80 else text[:77] + "..."
