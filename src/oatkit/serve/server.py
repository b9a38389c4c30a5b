"""openpi's websocket protocol before a policy.

client                         server
GET /healthz, GET /metrics -->
connect with its key       --> wrong: 401, before any message is read
                           <-- metadata
observation                -->
                           <-- actions and more, or an error as text, then close code 1011
                           <-- "busy: ..." as text where the queue is full; ask again
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from oatkit.errors import MissingExtraError, OatkitError

try:
    from oatkit_client.wire import pack
    from websockets.asyncio.server import Server, ServerConnection, serve
    from websockets.exceptions import ConnectionClosed
    from websockets.http11 import Request as HttpRequest
    from websockets.http11 import Response
except ImportError as error:
    raise MissingExtraError("serve") from error

from oatkit.policies.observation.observation_spec import blank_observation
from oatkit.serve.access import is_allowed
from oatkit.serve.batcher import Answer, Batcher, BusyError
from oatkit.serve.event_log import note
from oatkit.serve.key_map import KeyMap
from oatkit.serve.metrics import CONTENT_TYPE, Metrics
from oatkit.serve.request import Request, RequestReader
from oatkit.serve.served_policy import ServedPolicy, acting_head
from oatkit.types import Budget, Sampling

GOING_AWAY, INTERNAL_ERROR = 1001, 1011
SMALL_BYTES = 1 << 16
"""A message up to this size is read on the event loop; a larger one, with images, in a thread."""
QUIET = logging.getLogger("oatkit.serve.websockets")
QUIET.setLevel(logging.CRITICAL)  # port scanners are no events


@dataclass(frozen=True)
class ServeConfig:
    """How a policy is served.

    Attributes:
        host: Address to listen on.
        port: 0 for any that is free.
        api_key: What clients must send, if anything.
        tls: With a certificate, for `wss://`.
        max_batch: The most requests that are answered together.
        max_queue: The most requests that wait; others are told that the server is busy.
        max_connections: The most clients at a time.
        max_message_bytes: The largest message.
        timeout_s: For a prediction, and for a client to take its reply.
        idle_timeout_s: After which a silent client is disconnected.
        drain_s: How long requests may take to finish once the server is to stop.
        budget: Where a request names none.
        sampling: How ids are chosen. With a seed, an episode of the same observations gets the
            same actions.
        key_map: Changes of request keys, see `KeyMap.for_policy`.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    max_batch: int = 8
    max_queue: int = 64
    max_connections: int = 128
    max_message_bytes: int = 32 << 20
    timeout_s: float = 60.0
    idle_timeout_s: float = 600.0
    drain_s: float = 30.0
    budget: Budget = None
    sampling: Sampling = Sampling()
    key_map: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_queue", "max_connections", "max_message_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("timeout_s", "idle_timeout_s", "drain_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected more than 0")
        if not 0 <= self.port < 65536:
            raise ValueError(f"port is {self.port}, expected 0 to 65535")


@dataclass(eq=False)
class _Session:
    """What the server remembers of a connection."""

    number: int
    websocket: ServerConnection
    generator: torch.Generator | None
    gone: asyncio.Future[Any]
    is_idle: bool = True
    previous_ms: float | None = None
    warned: set[str] = field(default_factory=set)


class PolicyServer:
    """Serves one policy; `start` warms it up, `run` listens.

    Args:
        policy: What acts.
        config: How it is served.
        fingerprint: Of the artifact, for clients to know what they talk to.
    """

    def __init__(self, policy: ServedPolicy, config: ServeConfig, fingerprint: str = "") -> None:
        self._policy = policy
        self._config = config
        self._fingerprint = fingerprint
        self._keys = KeyMap.for_policy(policy.spec, config.key_map)
        self._reader = RequestReader(policy, self._keys, config.budget)
        self._batcher = Batcher(
            policy,
            max_batch=config.max_batch,
            max_queue=config.max_queue,
            sampling=config.sampling,
        )
        self.metrics = Metrics(
            budgets=policy.tokenizer.budgets,
            max_batch=config.max_batch,
            queue_depth=lambda: self._batcher.depth,
            connections=lambda: len(self._sessions),
        )
        self._sessions: set[_Session] = set()
        self._num_sessions = 0
        self._is_stopping = False
        self._greeting = b""

    @property
    def metadata(self) -> dict[str, Any]:
        """What every client is told first; complete once the server is warm."""
        spec, tokenizer, pace = self._policy.spec, self._policy.tokenizer, self._batcher.pace
        data = self._policy.extras.get("data", {})
        head = acting_head(self._policy)
        budgets = tokenizer.budgets if head == "tokens" else ()
        return {
            "horizon": tokenizer.horizon,
            "action_dim": tokenizer.action_dim,
            "action_names": list(tokenizer.data.action_names),
            "fps": tokenizer.data.fps,
            "cameras": {name: list(size) for name, size in spec.cameras.items()},
            "state_dim": spec.state_dim,
            "state_names": list(data.get("state_names", [])),
            "tasks": list(spec.tasks),
            "history": spec.history,
            "keys": dict(self._keys.preferred),
            "head": head,
            "tokenizer": tokenizer.kind,
            "tokenizer_fingerprint": tokenizer.digest,
            "budgets": list(budgets),
            "latency_ms": {
                str(budget or (budgets[-1] if budgets else head)): ms
                for (size, budget), ms in pace.table_ms.items()
                if size == 1
            },
            "normalization": {
                "action": tokenizer.normalizer.to_json(),
                "state": spec.state.to_json() if spec.state else None,
            },
            "fingerprint": self._fingerprint,
        }

    def start(self) -> None:
        """Warm up: the first request is as fast as the next."""
        config = self._config
        self._policy.predict_action_chunk(  # an impossible budget is told now, not to clients
            blank_observation(self._policy.spec, 1),
            budget=config.budget,
            sampling=config.sampling,
            generator=None,
            deadline_ms=None,
        )
        self._batcher.start()
        self._greeting = pack(self.metadata)
        note("warm", latency_ms=self.metadata["latency_ms"])

    async def run(self, stop: asyncio.Event, is_ready: Callable[[str], None]) -> None:
        """Listen until `stop` is set, then finish what was taken.

        Args:
            stop: Set it from the event loop.
            is_ready: Called with the address once clients can connect.
        """
        try:
            await self._listen(stop, is_ready)
        finally:
            await asyncio.to_thread(self._batcher.close, self._config.drain_s)
        note("stopped")

    async def _listen(self, stop: asyncio.Event, is_ready: Callable[[str], None]) -> None:
        config = self._config
        async with serve(
            self._handle,
            config.host,
            config.port,
            ssl=config.tls,
            origins=[None],  # no web page that happens to be open in a browser
            compression=None,
            process_request=self._http,
            max_size=config.max_message_bytes,
            max_queue=1,
            open_timeout=min(10.0, config.timeout_s),
            close_timeout=1,
            logger=QUIET,
        ) as server:
            scheme = "ws" if config.tls is None else "wss"
            port = server.sockets[0].getsockname()[1]
            host = f"[{config.host}]" if ":" in config.host else config.host
            url = f"{scheme}://{host}:{port}"
            note("listening", url=url)
            is_ready(url)
            await stop.wait()
            await self._drain(server)

    async def _drain(self, server: Server) -> None:
        """Finish requests that were taken; close all other connections."""
        note("draining", connections=len(self._sessions), waiting=self._batcher.depth)
        self._is_stopping = True
        server.close(close_connections=False)
        idle = [session for session in self._sessions if session.is_idle]
        goodbyes = [session.websocket.close(GOING_AWAY, "shutting down") for session in idle]
        await asyncio.gather(*goodbyes, return_exceptions=True)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.wait_closed(), self._config.drain_s)
        for session in self._sessions:
            session.websocket.transport.abort()

    def _http(self, connection: ServerConnection, request: HttpRequest) -> Response | None:
        """Answers what is no websocket, and refuses who may not have one."""
        if request.path == "/healthz":
            if self._batcher.is_well(self._config.timeout_s):
                return connection.respond(http.HTTPStatus.OK, "OK\n")
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "inference hangs\n")
        if not is_allowed(request.headers.get_all("Authorization"), self._config.api_key):
            note("refused", logging.WARNING, client=_address(connection))
            self.metrics.errors.add("unauthorized")
            return connection.respond(
                http.HTTPStatus.UNAUTHORIZED, "expected the header Authorization: Api-Key <key>\n"
            )
        if request.path == "/metrics":
            response = connection.respond(http.HTTPStatus.OK, self.metrics.render())
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = CONTENT_TYPE
            return response
        if len(self._sessions) >= self._config.max_connections:
            self.metrics.errors.add("connections")
            return connection.respond(
                http.HTTPStatus.SERVICE_UNAVAILABLE,
                f"busy: {len(self._sessions)} clients are connected already\n",
            )
        return None

    async def _handle(self, websocket: ServerConnection) -> None:
        self._num_sessions += 1
        gone = asyncio.ensure_future(websocket.wait_closed())
        generator = None if self._config.sampling.seed is None else torch.Generator()
        session = _Session(self._num_sessions, websocket, generator, gone)
        self._sessions.add(session)
        self._begin_episode(session)
        note("connected", connection=session.number, client=_address(websocket))
        reason = "closed by the client"
        try:
            await websocket.send(self._greeting)
            while not self._is_stopping:
                session.is_idle = True
                try:
                    message = await asyncio.wait_for(websocket.recv(), self._config.idle_timeout_s)
                except asyncio.TimeoutError:
                    reason = f"silent for {self._config.idle_timeout_s:g} s"
                    await websocket.close(GOING_AWAY, reason)
                    break
                session.is_idle = False
                if not await self._reply(session, message, time.perf_counter()):
                    reason = "error"
                    break
            else:
                reason = "shutting down"
                await websocket.close(GOING_AWAY, reason)
        except (ConnectionClosed, asyncio.TimeoutError):
            pass
        finally:
            self._sessions.discard(session)
            gone.cancel()
            note("disconnected", connection=session.number, reason=reason)

    async def _reply(self, session: _Session, message: bytes | str, received: float) -> bool:
        """Answer one message; False where the connection is over."""
        try:
            request = await self._read(message, received)
            if request.is_reset:
                self._begin_episode(session)
            request.generator = session.generator
            answer = await self._ask(session, request)
            if answer is None:
                self.metrics.requests.add("gone")
                return False
            await self._send(session, pack(self._message(session, request, answer)))
        except BusyError as error:
            self.metrics.requests.add("busy")
            await self._send(session, str(error))
            return True
        except ConnectionClosed:
            self.metrics.requests.add("gone")
            raise
        except (OatkitError, ValueError) as error:
            await self._refuse(session, str(error), "request")
            return False
        except Exception as error:  # noqa: BLE001  the client is told that, the log what
            number = secrets.token_hex(4)
            note("failure", logging.ERROR, trace=True, connection=session.number, id=number)
            kind = "timeout" if isinstance(error, asyncio.TimeoutError) else "internal"
            text = f"internal error {number}: the server's log says more"
            if kind == "timeout":
                text = f"no prediction within {self._config.timeout_s:g} s"
            await self._refuse(session, text, kind)
            return False
        self._measure(session, request, answer)
        return True

    async def _read(self, message: bytes | str, received: float) -> Request:
        if len(message) <= SMALL_BYTES:
            return self._reader.read(message, received)
        return await asyncio.to_thread(self._reader.read, message, received)

    async def _ask(self, session: _Session, request: Request) -> Answer | None:
        """The answer; None where the client went away meanwhile."""
        future = self._batcher.submit(request)
        await asyncio.wait(
            {future, session.gone},
            timeout=self._config.timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if future.done():
            return future.result()
        future.cancel()
        if session.gone.done():
            return None
        raise asyncio.TimeoutError

    def _message(self, session: _Session, request: Request, answer: Answer) -> dict[str, Any]:
        """The reply. Only the actions are an array: openpi's `ActionChunkBroker` takes one step
        out of every array that it finds."""
        timing = {"infer_ms": answer.infer_ms, "queue_ms": answer.queue_ms}
        if session.previous_ms is not None:
            timing["prev_total_ms"] = session.previous_ms
        reply = {
            **({} if request.is_tokens_only else {"actions": answer.actions}),
            "tokens": answer.tokens,
            "budget_used": len(answer.tokens),
            "entropy": answer.entropy_bits,
            "calls": answer.calls,
            "server_timing": timing,
        }
        if request.deadline is not None:
            reply["deadline_met"] = time.perf_counter() <= request.deadline
        warnings = [w for w in self._warnings(request) if w not in session.warned]
        if warnings:
            session.warned.update(warnings)
            reply["warning"] = "; ".join(warnings)
        return reply

    def _warnings(self, request: Request) -> Iterator[str]:
        if request.is_repeated:
            yield (
                f"the policy reads {self._policy.spec.history} frames and got one, which was "
                "repeated: send them with a leading time axis"
            )
        if request.deadline is not None and not self._batcher.pace.budgets:
            yield "this policy cannot stop early: deadline_ms is ignored"

    async def _send(self, session: _Session, message: bytes | str) -> None:
        await asyncio.wait_for(session.websocket.send(message), self._config.timeout_s)

    async def _refuse(self, session: _Session, text: str, kind: str) -> None:
        """openpi's way to say that something went wrong."""
        self.metrics.requests.add("error")
        self.metrics.errors.add(kind)
        note("error", logging.WARNING, connection=session.number, kind=kind, error=text)
        await self._send(session, text)
        await session.websocket.close(INTERNAL_ERROR, "the previous frame says what is wrong")

    def _begin_episode(self, session: _Session) -> None:
        seed = self._config.sampling.seed
        if session.generator is not None and seed is not None:
            session.generator.manual_seed(seed)

    def _measure(self, session: _Session, request: Request, answer: Answer) -> None:
        now = time.perf_counter()
        session.previous_ms = 1000 * (now - request.received)
        self._batcher.pace.note_reply(1000 * (now - answer.done))
        self.metrics.requests.add("ok")
        self.metrics.request_s.add(now - request.received)
        self.metrics.infer_s.add(answer.infer_ms / 1000)
        self.metrics.budget_used.add(len(answer.tokens))
        self.metrics.batch_size.add(answer.batch_size)
        if request.deadline is not None:
            self.metrics.deadlines.add("met" if now <= request.deadline else "missed")
        note(
            "request",
            logging.DEBUG,
            connection=session.number,
            queue_ms=round(answer.queue_ms, 3),
            infer_ms=round(answer.infer_ms, 3),
            total_ms=round(session.previous_ms, 3),
            batch_size=answer.batch_size,
            budget_used=len(answer.tokens),
        )


@contextlib.contextmanager
def serving(
    policy: ServedPolicy, config: ServeConfig | None = None, fingerprint: str = ""
) -> Iterator[str]:
    """A server in a thread of this process, as a context that gives its address."""
    server = PolicyServer(policy, config or ServeConfig(port=0), fingerprint)
    server.start()
    urls: list[str] = []
    failures: list[BaseException] = []
    is_settled = threading.Event()
    handles: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        handles.append((asyncio.get_running_loop(), stop))

        def is_ready(url: str) -> None:
            urls.append(url)
            is_settled.set()

        await server.run(stop, is_ready)

    def main() -> None:
        try:
            asyncio.run(run())
        except OSError as error:  # the port is taken
            failures.append(error)
        finally:
            is_settled.set()

    thread = threading.Thread(target=main, name="oatkit-serve")
    thread.start()
    is_settled.wait()
    if failures:
        thread.join()
        raise failures[0]
    try:
        yield urls[0]
    finally:
        loop, stop = handles[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def _address(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if address else "unknown"
