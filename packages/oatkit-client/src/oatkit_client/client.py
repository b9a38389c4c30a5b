"""The connection of a robot to its policy server.

from oatkit_client import Client

with Client("ws://127.0.0.1:8000") as client:
    reply = client.infer({"observation/state": state}, deadline_ms=20)
    reply["actions"]  # (horizon, action_dim), raw units
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from ssl import SSLCertVerificationError
from typing import Any, cast

import numpy as np
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
)
from websockets.sync.client import ClientConnection, connect

from oatkit_client.errors import (
    ConnectionFailed,
    NoChunk,
    Refused,
    RequestTimeout,
    ServerBusy,
    ServerError,
)
from oatkit_client.handshake import (
    CheckedConnection,
    foreign,
    is_foreign,
    refusal,
    unreachable,
    unwilling,
)
from oatkit_client.key_map import STATE
from oatkit_client.local_decoder import LocalDecoder
from oatkit_client.protocol import (
    BUSY,
    KEY_SCHEME,
    NO_CHUNK,
    Budget,
    Metadata,
    Reply,
    RequestOptions,
)
from oatkit_client.sampling import Sampling
from oatkit_client.wire import WireError, pack, unpack

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
BUFFERED_BYTES = 1 << 12
"""Maximum size of a message that fits into the socket's buffer, so that it leaves at once even if
nobody reads it."""


class Client:
    """Asks a policy server for chunks; opens the connection when first needed, and again when lost.

    May be used from several threads: one request is under way at a time.

    Args:
        url: Address of the server, `ws://host:port`, or `wss://host:port` with TLS.
        api_key: Key that is sent as `Authorization: Api-Key ...`, without white space around it.
        timeout_s: Maximum time that `infer` may take, reconnecting included.
        connect_timeout_s: Maximum time of one attempt to connect, at most `timeout_s`.
        reconnect_s: Maximum time for which a server that cannot be reached is tried again; as long
            as `timeout_s` allows by default.
        ssl: An `ssl.SSLContext` for `wss://`, where the system's certificates do not suffice.
        decoder: Decoder of the server's tokenizer; with it, only tokens travel and are decoded
            here.
        embodiment: Name of the robot, where the server acts for several.
    """

    def __init__(
        self,
        url: str = "ws://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        reconnect_s: float | None = None,
        ssl: Any = None,
        decoder: LocalDecoder | None = None,
        embodiment: str | None = None,
    ) -> None:
        self.url = url if "://" in url else "ws://" + url
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._reconnect_s = timeout_s if reconnect_s is None else reconnect_s
        self._options: dict[str, Any] = {"compression": None, "max_size": None, "close_timeout": 1}
        self._options["create_connection"] = CheckedConnection
        if api_key is not None:
            self._options["additional_headers"] = {
                "Authorization": f"{KEY_SCHEME} {_checked_key(api_key)}"
            }
        if ssl is not None:
            self._options["ssl"] = ssl
        self._decoder = decoder
        self._embodiment = embodiment
        self._lock = threading.Lock()
        self._connection: ClientConnection | None = None
        self._metadata: Metadata | None = None
        self._is_new_episode = True
        self._num_losses = 0

    @property
    def metadata(self) -> Metadata:
        """What the server says about its policy: horizon, action_dim, budgets, keys and more."""
        with self._lock:
            self._connect(time.monotonic() + self._timeout_s)
            assert self._metadata is not None
            return self._metadata

    @property
    def action_scale(self) -> Any:
        """Raw units in a normalized one of each action dimension, (action_dim,), in which chunks
        are compared; 1 for a server that does not tell them."""
        told = self._metadata or self.metadata  # known without waiting for a request under way
        scale = told["normalization"]["action"]["scale"] if "normalization" in told else 1.0
        return np.asarray(scale)

    def get_server_metadata(self) -> Metadata:
        """The same as `metadata`, by the name that openpi's client has for it."""
        return self.metadata

    def infer(
        self,
        obs: Mapping[str, Any],
        *,
        budget: Budget | None = None,
        deadline_ms: float | None = None,
        sampling: Sampling | Mapping[str, Any] | None = None,
        draws: int = 1,
        committed: Any = None,
    ) -> Reply:
        """The server's reply, with the chunk as `actions`, (horizon, action_dim) in raw units.

        A lost connection is opened again and the request repeated, and a busy server is asked
        again, until `timeout_s` is over. After a lost connection the reply says that it is `stale`:
        the observation is as old as the request.

        Args:
            obs: Observation by the keys of the server's `metadata["keys"]`, such as
                `observation/state`.
            budget: Maximum number of tokens, or "auto"; the server's choice by default.
            deadline_ms: Time in which the server decodes as many tokens as fit, queueing included.
            sampling: How ids are chosen, or a mapping of only some of the rules; what is left out
                is the server's choice.
            draws: Number of chunks to generate; several are the reply's `draws`.
            committed: Actions that are executed before the chunk acts, (steps, action_dim) in raw
                units, where the metadata has `takes_committed`.
        """
        options: RequestOptions = {}
        if budget is not None:
            options["budget"] = budget
        if deadline_ms is not None:
            options["deadline_ms"] = float(deadline_ms)
        if sampling is not None:
            rules = asdict(sampling) if isinstance(sampling, Sampling) else dict(sampling)
            options["sampling"] = rules
        if draws != 1:
            options["draws"] = draws
        if committed is not None:
            options["committed"] = np.asarray(committed, np.float32)
        if self._decoder is not None:
            options["tokens_only"] = True
        if self._embodiment is not None:
            options["embodiment"] = self._embodiment
        end = time.monotonic() + self._timeout_s
        with self._lock:
            is_first, self._is_new_episode = self._is_new_episode, False
            if is_first:
                options["reset"] = True
            try:
                reply = self._ask_until(pack({**obs, **options}), end)
            except Exception:
                self._is_new_episode |= is_first
                raise
        if self._decoder is not None:
            state = _state(obs) if self._decoder.state_dim else None
            reply["actions"] = self._decoder.decode(reply["tokens"], state=state)
        if draws != 1 and "draws" not in reply:
            raise Refused(f"{self.url} gives one chunk and not {draws!r}: ask without draws")
        return reply

    def ask(self, message: Mapping[str, Any]) -> Reply:
        """The server's reply to a message that is sent as it is; `infer` adds what a robot needs.

        Args:
            message: Observation by the keys of the server, with the options of the request.
        """
        end = time.monotonic() + self._timeout_s
        with self._lock:
            return self._ask_until(pack(message), end)

    def reset(self) -> None:
        """An episode ends: the next request is the first of another."""
        self._is_new_episode = True

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        with self._lock:
            self._drop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask_until(self, data: bytes, end: float) -> Reply:
        """Ask again after a lost connection or a busy server, as long as there is time."""
        backoff, losses_before = _Backoff(end), self._num_losses
        while True:
            try:
                reply = self._ask(data, end)
                if self._num_losses > losses_before:
                    reply["stale"] = True
                return reply
            except (ConnectionClosed, OSError) as error:
                self._drop()
                if isinstance(error, (ConnectionFailed, RequestTimeout)):
                    raise
                self._num_losses += 1
                if not backoff.wait():
                    raise ConnectionFailed(f"the connection to {self.url} was lost") from error
            except ServerBusy:
                if not backoff.wait():
                    raise

    def _ask(self, data: bytes, end: float) -> Reply:
        connection = self._connect(end)
        try:
            _send(connection, data, end)
            answer = connection.recv(timeout=_left_s(end))
        except TimeoutError as error:
            # its reply would be taken for that of the next request
            _hang_up(connection)
            self._drop()
            raise RequestTimeout(
                f"{self.url} did not answer within {self._timeout_s:g} s"
            ) from error
        if isinstance(answer, str):
            if answer.startswith(BUSY):
                raise ServerBusy(answer)
            self._drop()
            raise NoChunk(answer) if answer.startswith(NO_CHUNK) else ServerError(answer)
        return cast(Reply, unpack(answer))

    def _connect(self, end: float) -> ClientConnection:
        backoff = _Backoff(min(end, time.monotonic() + self._reconnect_s))
        while self._connection is None:
            attempt_s = min(self._connect_timeout_s, _left_s(end))
            try:
                # entered here and left in _drop: it lives as long as this client
                self._connection = connect(
                    self.url, open_timeout=attempt_s, **self._options
                ).__enter__()
                metadata = _metadata(self._connection.recv(timeout=attempt_s))
                self._metadata = robot_metadata(metadata, self._embodiment)
                self._check_decoder()
            except InvalidURI as error:
                raise Refused(f"{self.url!r} is no address, expected ws://host:port") from error
            except SSLCertVerificationError as error:
                raise Refused(
                    f"the certificate of {self.url} is not trusted ({error.verify_message}): give "
                    "ssl=ssl.create_default_context(cafile=...)"
                ) from error
            except InvalidStatus as error:
                if error.response.status_code < 500:
                    raise Refused(refusal(self.url, error.response.status_code)) from error
                self._wait_or_fail(backoff, error, unwilling(self.url, error))
            except (OSError, InvalidHandshake, ConnectionClosed) as error:
                self._drop()
                if is_foreign(error):
                    raise Refused(foreign(self.url, str(error.__cause__ or error))) from error
                self._wait_or_fail(backoff, error, unreachable(self.url, error))
            except (ServerError, Refused, WireError):
                self._drop()
                raise
        return self._connection

    def _check_decoder(self) -> None:
        """Raise unless the decoder is that of the server's tokenizer: tokens of another one would
        decode to other actions."""
        theirs = None if self._metadata is None else self._metadata.get("tokenizer_fingerprint")
        if self._decoder is not None and self._decoder.fingerprint != theirs:
            raise Refused(
                f"the decoder is not that of the policy at {self.url}: export it from the policy "
                "that is served"
            )

    def _wait_or_fail(self, backoff: _Backoff, error: Exception, message: str) -> None:
        self._num_losses += 1
        if not backoff.wait():
            raise ConnectionFailed(message) from error

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Backoff:
    """Pauses that double, and vary at random so that many clients do not come back at once."""

    def __init__(self, end: float) -> None:
        self._end = end
        self._wait_s = FIRST_WAIT_S

    def wait(self) -> bool:
        """Pause; returns False at once where there is not enough time left for the pause."""
        pause_s = self._wait_s * random.uniform(0.5, 1.5)
        if time.monotonic() + pause_s >= self._end:
            return False
        time.sleep(pause_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        return True


def _checked_key(text: str) -> str:
    """The key as a header takes it; the error does not show it."""
    key = text.strip()  # a file that holds a key ends with a new line
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError("api_key is no key: expected one line of printable ASCII")
    return key


def _left_s(end: float) -> float:
    return max(end - time.monotonic(), 0.001)


def _send(connection: ClientConnection, data: bytes, end: float) -> None:
    """Send a message or, where nobody reads a large one, raise a TimeoutError at the end."""
    if len(data) <= BUFFERED_BYTES:
        return connection.send(data)
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        _hang_up(connection)

    alarm = threading.Timer(_left_s(end), give_up)
    alarm.start()
    try:
        connection.send(data)
    except ConnectionClosed as error:
        if is_late.is_set():
            raise TimeoutError("the message did not leave in time") from error
        raise
    finally:
        alarm.cancel()


def _hang_up(connection: ClientConnection) -> None:
    """Cut the connection without a closing message, which might not leave either."""
    with suppress(OSError):
        connection.socket.shutdown(socket.SHUT_RDWR)


def _metadata(first: bytes | str) -> Metadata:
    if isinstance(first, str):
        raise ServerError(first)
    metadata = unpack(first)
    if not isinstance(metadata, dict):
        raise WireError(f"the first message is a {type(metadata).__name__}, expected metadata")
    return cast(Metadata, metadata)


def robot_metadata(metadata: Metadata, embodiment: str | None) -> Metadata:
    """What a server says about the policy of one robot; the first one's where none is named."""
    robots = metadata.get("embodiments", {})  # servers of before have none
    if embodiment is None:
        return metadata
    if embodiment not in robots:
        known = ", ".join(robots) or "one without a name"
        raise Refused(f"the server acts for the robots {known}, not for {embodiment!r}")
    return cast(Metadata, {**metadata, **robots[embodiment]})


def _state(obs: Mapping[str, Any]) -> Any:
    """The latest state of an observation by openpi's or LeRobot's key."""
    state: Any = next((obs[key] for key in ("observation/state", STATE) if key in obs), None)
    return state if np.ndim(state) < 2 else state[-1]
