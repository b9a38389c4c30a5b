"""What the server answers to HTTP, before a client has its websocket.

GET /healthz    200 OK; 503 while a prediction hangs
GET /metrics    numbers for Prometheus; takes the key
anything else   the websocket; 401 without the key, 503 where there are too many clients
"""

from __future__ import annotations

import http
import logging
from collections.abc import Callable

from oatkit_client.protocol import BUSY, KEY_SCHEME
from prometheus_client import CONTENT_TYPE_LATEST
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response

from oatkit.serve.access import is_allowed
from oatkit.serve.connection import Service, client_address
from oatkit.serve.event_log import log_event


class HttpRoutes:
    """Answers requests that are no websocket, and refuses clients that may not have one.

    Args:
        service: The server's parts.
        num_connections: Gives how many clients are connected.
    """

    def __init__(self, service: Service, num_connections: Callable[[], int]) -> None:
        self._service = service
        self._num_connections = num_connections

    def answer(self, connection: ServerConnection, request: HttpRequest) -> Response | None:
        """The response; None where the websocket may be opened."""
        config, metrics = self._service.config, self._service.metrics
        if request.path == "/healthz":
            return self._health(connection)
        if not is_allowed(request.headers.get_all("Authorization"), config.api_key):
            log_event("refused", logging.WARNING, client=client_address(connection))
            metrics.add_error("unauthorized")
            return connection.respond(
                http.HTTPStatus.UNAUTHORIZED,
                f"expected the header Authorization: {KEY_SCHEME} <key>\n",
            )
        if request.path == "/metrics":
            response = connection.respond(http.HTTPStatus.OK, metrics.render())
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = CONTENT_TYPE_LATEST
            return response
        count = self._num_connections()
        if count >= config.max_connections:
            metrics.add_error("connections")
            return connection.respond(
                http.HTTPStatus.SERVICE_UNAVAILABLE,
                f"{BUSY}: {count} clients are connected already\n",
            )
        return None

    def _health(self, connection: ServerConnection) -> Response:
        if self._service.batcher.is_healthy(self._service.config.timeout_s):
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "inference hangs\n")
