"""The conversations with clients: metadata first, then a reply for every request.

client                         server
                           <-- metadata
observation                -->
                           <-- actions and more, or an error as text, then close code 1011
                           <-- "busy: ..." as text where the queue is full; ask again
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from typing import Any

import torch
from oatkit_client.protocol import NO_CHUNK
from oatkit_client.wire import pack
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from oatkit.errors import DecodeError, OatkitError
from oatkit.serve.batcher import Answer, Batcher, BusyError
from oatkit.serve.event_log import log_event
from oatkit.serve.metrics import Metrics
from oatkit.serve.reply import make_reply
from oatkit.serve.request import Request
from oatkit.serve.robot_requests import RobotRequests
from oatkit.serve.serve_config import ServeConfig

GOING_AWAY, INTERNAL_ERROR = 1001, 1011
"""Close codes of the websocket protocol."""
OUT_OF_RANGE = "out_of_range"
"""Event of a client whose states are far outside of the training data."""
SMALL_BYTES = 1 << 16
"""Maximum size of a message that is read on the event loop; a larger one, which has images, is read
in a thread."""


@dataclass(eq=False)
class Service:
    """What all connections of a server share.

    Attributes:
        config: Limits and time-outs.
        reader: Makes requests of messages.
        batcher: Answers requests.
        metrics: Counts what happens.
        greeting: Metadata as bytes, the first message to every client.
        is_stopping: Whether the server takes no more requests.
    """

    config: ServeConfig
    reader: RobotRequests
    batcher: Batcher
    metrics: Metrics
    greeting: bytes = b""
    is_stopping: bool = False


class Connection:
    """One client, whose requests are answered one after the other.

    Args:
        service: What it shares with all other connections.
        websocket: The open connection.
        number: Number of the connection in the log.
    """

    def __init__(self, service: Service, websocket: ServerConnection, number: int) -> None:
        self._service = service
        self._websocket = websocket
        self._number = number
        self._gone: asyncio.Future[Any] = asyncio.ensure_future(websocket.wait_closed())
        self._is_idle = True
        self._previous_ms: float | None = None
        self._warned: set[str] = set()
        self._generator: torch.Generator | None = None
        self._seed: int | None = None

    async def run(self) -> None:
        """Talk to the client until either side ends the conversation."""
        log_event("connected", connection=self._number, client=client_address(self._websocket))
        reason = "closed by the client"
        try:
            await self._websocket.send(self._service.greeting)
            reason = await self._converse()
        except (ConnectionClosed, asyncio.TimeoutError):
            pass
        finally:
            self._gone.cancel()
            log_event("disconnected", connection=self._number, reason=reason)

    async def close_if_idle(self) -> None:
        """End the conversation unless a request is being answered."""
        if self._is_idle:
            await self._websocket.close(GOING_AWAY, "shutting down")

    def abort(self) -> None:
        """Cut the connection."""
        self._websocket.transport.abort()

    async def _converse(self) -> str:
        """Answer message after message; gives the reason why there are no more."""
        idle_timeout_s = self._service.config.idle_timeout_s
        while not self._service.is_stopping:
            self._is_idle = True
            try:
                message = await asyncio.wait_for(self._websocket.recv(), idle_timeout_s)
            except asyncio.TimeoutError:
                reason = f"silent for {idle_timeout_s:g} s"
                await self._websocket.close(GOING_AWAY, reason)
                return reason
            self._is_idle = False
            if not await self._answer(message, time.perf_counter()):
                return "error"
        await self._websocket.close(GOING_AWAY, "shutting down")
        return "shutting down"

    async def _answer(self, message: bytes | str, received: float) -> bool:
        """Answer one message; False where the connection is over."""
        metrics = self._service.metrics
        try:
            request = await self._read(message, received)
            self._look_at_range(request)
            answer = await self._predict(request)
            if answer is None:
                metrics.add_request("gone")
                return False
            reply = make_reply(request, answer, self._previous_ms, self._new_warnings(request))
            await self._send(pack(reply))
        except BusyError as error:
            metrics.add_request("busy")
            await self._send(str(error))
            return True
        except ConnectionClosed:
            metrics.add_request("gone")
            raise
        except (OatkitError, ValueError) as error:
            said = f"{NO_CHUNK}: {error}" if isinstance(error, DecodeError) else str(error)
            await self._refuse(said, "request")
            return False
        except asyncio.TimeoutError:
            self._log_failure()
            await self._refuse(
                f"no prediction within {self._service.config.timeout_s:g} s", "timeout"
            )
            return False
        except Exception:  # noqa: BLE001  the client gets a number, the log the traceback
            number = self._log_failure()
            await self._refuse(f"internal error {number}: the server's log says more", "internal")
            return False
        self._record(request, answer)
        return True

    def _look_at_range(self, request: Request) -> None:
        """Count a state far outside of the training data, or refuse it."""
        if request.far is None:
            return
        self._service.metrics.add_out_of_range(request.far.name)
        if self._service.config.refuse_out_of_range:
            raise ValueError(request.far.sentence)

    def _new_warnings(self, request: Request) -> list[str]:
        """What this client has not heard yet; of states that are far off it hears once."""
        found = {text: text for text in request.warnings}
        if request.far is not None:
            found[OUT_OF_RANGE] = request.far.sentence
        new = {kind: text for kind, text in found.items() if kind not in self._warned}
        self._warned.update(new)
        if OUT_OF_RANGE in new:
            log_event(
                OUT_OF_RANGE, logging.WARNING, connection=self._number, warning=new[OUT_OF_RANGE]
            )
        return list(new.values())

    async def _read(self, message: bytes | str, received: float) -> Request:
        reader = self._service.reader
        if len(message) <= SMALL_BYTES:
            return reader.read(message, received)
        return await asyncio.to_thread(reader.read, message, received)

    async def _predict(self, request: Request) -> Answer | None:
        """The answer; None where the client went away meanwhile."""
        future = self._service.batcher.submit(request, self._episode_generator(request))
        await asyncio.wait(
            {future, self._gone},
            timeout=self._service.config.timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if future.done():
            return future.result()
        future.cancel()
        if self._gone.done():
            return None
        raise asyncio.TimeoutError

    def _episode_generator(self, request: Request) -> torch.Generator | None:
        """Random numbers of the request's seed, which begin again with every episode."""
        seed = request.sampling.seed
        if request.is_reset:
            self._generator = None
        if seed is None:
            return None
        if self._generator is None or self._seed != seed:
            self._generator, self._seed = torch.Generator().manual_seed(seed), seed
        return self._generator

    async def _send(self, message: bytes | str) -> None:
        await asyncio.wait_for(self._websocket.send(message), self._service.config.timeout_s)

    async def _refuse(self, text: str, kind: str) -> None:
        """Say what went wrong as openpi's servers do."""
        self._service.metrics.add_request("error")
        self._service.metrics.add_error(kind)
        log_event("error", logging.WARNING, connection=self._number, kind=kind, error=text)
        await self._send(text)
        await self._websocket.close(INTERNAL_ERROR, "the previous frame says what is wrong")

    def _log_failure(self) -> str:
        """Log the present exception; gives the number by which the log can be searched."""
        number = secrets.token_hex(4)
        log_event("failure", logging.ERROR, trace=True, connection=self._number, id=number)
        return number

    def _record(self, request: Request, answer: Answer) -> None:
        """Count a reply that has left, and learn from how long it took."""
        now = time.perf_counter()
        self._previous_ms = 1000 * (now - request.received)
        self._service.batcher.latencies.add_reply(1000 * (now - answer.done))
        self._service.metrics.add_reply(
            request_s=now - request.received,
            infer_s=answer.infer_ms / 1000,
            budget_used=answer.budget_used,
            batch_size=answer.batch_size,
            is_in_time=None if request.deadline is None else now <= request.deadline,
        )
        log_event(
            "request",
            logging.DEBUG,
            connection=self._number,
            queue_ms=round(answer.queue_ms, 3),
            infer_ms=round(answer.infer_ms, 3),
            total_ms=round(self._previous_ms, 3),
            batch_size=answer.batch_size,
            budget_used=answer.budget_used,
        )


class Connections:
    """All clients that are connected.

    Args:
        service: What they share.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._open: set[Connection] = set()
        self._num_accepted = 0

    def __len__(self) -> int:
        """The number of clients."""
        return len(self._open)

    async def handle(self, websocket: ServerConnection) -> None:
        """Talk to a new client until the conversation ends."""
        self._num_accepted += 1
        connection = Connection(self._service, websocket, self._num_accepted)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)

    async def close_idle(self) -> None:
        """End all conversations in which no request is being answered."""
        closing = [connection.close_if_idle() for connection in self._open]
        await asyncio.gather(*closing, return_exceptions=True)

    def abort(self) -> None:
        """Cut all connections."""
        for connection in self._open:
            connection.abort()


def client_address(websocket: ServerConnection) -> str:
    """Host and port of a client."""
    address = websocket.remote_address
    return f"{address[0]}:{address[1]}" if address else "unknown"
