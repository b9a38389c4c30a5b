"""A policy behind a websocket, by openpi's protocol: warm up, listen, finish what was taken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from oatkit_client.protocol import Metadata
from oatkit_client.wire import pack
from websockets.asyncio.server import Server, serve

from oatkit.policies import Policy
from oatkit.policies.observation.observation_spec import blank_observation
from oatkit.serve.batcher import Batcher
from oatkit.serve.connection import Connections, Service
from oatkit.serve.event_log import log_event
from oatkit.serve.http_routes import HttpRoutes
from oatkit.serve.metadata import server_metadata
from oatkit.serve.metrics import Metrics
from oatkit.serve.request import RequestReader, robot_name
from oatkit.serve.request_keys import request_keys
from oatkit.serve.robot_requests import RobotRequests
from oatkit.serve.serve_config import ServeConfig

WEBSOCKETS_LOGGER = logging.getLogger("oatkit.serve.websockets")
WEBSOCKETS_LOGGER.setLevel(logging.CRITICAL)  # the handshakes of port scanners are no events


class PolicyServer:
    """Serves a policy; `start` warms it up, `run` listens.

    Args:
        policy: Policy that answers, or those of several robots by their names, around one network.
        config: How it is served.
    """

    def __init__(self, policy: Policy | Mapping[str, Policy], config: ServeConfig) -> None:
        self._policies: dict[str | None, Policy] = {}
        if isinstance(policy, Mapping):
            self._policies.update(policy.items())
        else:
            self._policies[robot_name(policy)] = policy
        policy = next(iter(self._policies.values()))
        self._config = config
        self._keys = {
            name: request_keys(one.spec, config.key_map) for name, one in self._policies.items()
        }
        batcher = Batcher(
            policy,
            max_batch=config.max_batch,
            max_queue=config.max_queue,
            robots=self._policies,
        )
        readers = {
            name: RequestReader(one, self._keys[name], config.budget, config.sampling)
            for name, one in self._policies.items()
        }
        self._service = Service(
            config=config,
            reader=RobotRequests(readers),
            batcher=batcher,
            metrics=Metrics(
                budgets=policy.budgets,
                max_batch=config.max_batch,
                queue_depth=lambda: batcher.num_waiting,
                connections=lambda: len(self._connections),
            ),
        )
        self._connections = Connections(self._service)
        self._routes = HttpRoutes(self._service, lambda: len(self._connections))

    @property
    def metadata(self) -> Metadata:
        """The first message to every client; complete once the server is warm."""
        latencies = self._service.batcher.latencies
        return server_metadata(self._policies, self._keys, latencies)

    def start(self) -> None:
        """Warm up, so that the first request is as fast as the next."""
        for policy in self._policies.values():
            policy.predict_action_chunk(  # an impossible budget fails now, not when clients ask
                blank_observation(policy.spec, 1),
                budget=self._config.budget,
                sampling=self._config.sampling,
            )
        self._service.batcher.start()
        metadata = self.metadata
        self._service.greeting = pack(metadata)
        log_event("warm", latency_ms=metadata["latency_ms"])

    async def run(self, stop: asyncio.Event, is_ready: Callable[[str], None]) -> None:
        """Listen until `stop` is set, then finish what was taken.

        Args:
            stop: Event that ends the server; set it from the event loop.
            is_ready: Function that is called with the address once clients can connect.
        """
        try:
            await self._listen(stop, is_ready)
        finally:
            await asyncio.to_thread(self._service.batcher.close, self._config.drain_s)
        log_event("stopped")

    async def _listen(self, stop: asyncio.Event, is_ready: Callable[[str], None]) -> None:
        config = self._config
        async with serve(
            self._connections.handle,
            config.host,
            config.port,
            ssl=config.tls,
            origins=[None],  # no web page that happens to be open in a browser
            compression=None,
            process_request=self._routes.answer,
            max_size=config.max_message_bytes,
            max_queue=1,
            open_timeout=min(10.0, config.timeout_s),
            close_timeout=1,
            logger=WEBSOCKETS_LOGGER,
        ) as server:
            scheme = "ws" if config.tls is None else "wss"
            port = server.sockets[0].getsockname()[1]
            host = f"[{config.host}]" if ":" in config.host else config.host
            url = f"{scheme}://{host}:{port}"
            log_event("listening", url=url)
            is_ready(url)
            await stop.wait()
            await self._drain(server)

    async def _drain(self, server: Server) -> None:
        """Finish requests that were taken; close all other connections."""
        waiting = self._service.batcher.num_waiting
        log_event("draining", connections=len(self._connections), waiting=waiting)
        self._service.is_stopping = True
        server.close(close_connections=False)
        await self._connections.close_idle()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.wait_closed(), self._config.drain_s)
        self._connections.abort()
