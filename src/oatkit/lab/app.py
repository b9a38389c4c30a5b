"""The lab over HTTP, on this machine only. Only this file imports starlette and uvicorn."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oatkit.errors import MissingExtraError, OatkitError
from oatkit.lab.lab import Lab
from oatkit.lab.static_page import live_page

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtraError("lab") from error

LOOPBACK = "127.0.0.1"
POST = ["POST"]
CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: the page may send requests to this server only."""


def make_app(lab: Lab) -> Starlette:
    """The application: the page at `/`, and its questions below `/api`."""
    return Starlette(
        routes=[
            Route("/", lambda _: _page()),
            Route("/api/facts", _answer(lambda _: lab.facts())),
            Route("/api/episode", _answer(lambda q: lab.episode(_number(q, "episode")))),
            Route("/api/chunk", _answer(lambda q: lab.chunk(*_place(q)))),
            Route("/api/image", _image(lab)),
            Route("/api/decode", _reply(lambda b: lab.decode(b["name"], b["ids"])), methods=POST),
            Route(
                "/api/influence",
                _reply(lambda b: lab.influence(b["name"], b["ids"])),
                methods=POST,
            ),
        ],
        # Refuses pages of other sites whose host names were made to point to this machine.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])],
    )


def serve_lab(lab: Lab, port: int, on_ready: Callable[[str], None]) -> None:
    """Listen on this machine until interrupted.

    Args:
        lab: Lab that answers the questions of the page.
        port: Port to listen on; 0 for any that is free.
        on_ready: Called with the address once it can be opened.
    """
    with _listening(port) as listener:
        on_ready(_address(listener))
        _server(lab).run(sockets=[listener])


@contextmanager
def serving(lab: Lab) -> Iterator[str]:
    """Serve the lab on a free port from a thread, until the block ends; gives the address."""
    with _listening(0) as listener:
        server = _server(lab)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield _address(listener)
        finally:
            server.should_exit = True
            thread.join()


def _server(lab: Lab) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(make_app(lab), log_level="warning", ws="none", lifespan="off")
    )


def _listening(port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise ValueError(f"port is {port}, expected 0 to 65535")
    # Named as TCP, because only then asyncio sends at once; else each answer takes 40 ms more.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ValueError(
            f"port {port} cannot be used ({error.strerror}): choose another with --port, 0 for "
            "any that is free"
        ) from error
    return listener


def _address(listener: socket.socket) -> str:
    return f"http://{LOOPBACK}:{listener.getsockname()[1]}/"


def _page() -> Response:
    headers = {"Content-Security-Policy": CONTENT_POLICY, "Cache-Control": "no-store"}
    return HTMLResponse(live_page(), headers=headers)


def _answer(ask: Callable[[Any], Any]) -> Callable[[Request], Response]:
    """An endpoint for questions in the address; starlette runs plain functions in a thread."""

    def endpoint(request: Request) -> Response:
        return _or_message(lambda: JSONResponse(ask(request.query_params)))

    return endpoint


def _reply(ask: Callable[[Any], Any]) -> Callable[[Request], Any]:
    """An endpoint for questions in the body of the request."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(_or_message, lambda: JSONResponse(ask(_read(body))))

    return endpoint


def _image(lab: Lab) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        q = request.query_params
        return _or_message(
            lambda: Response(lab.image(*_place(q), q.get("camera", "")), media_type="image/jpeg")
        )

    return endpoint


def _or_message(answer: Callable[[], Response]) -> Response:
    """The answer, or a message for the page where the user asked for something impossible."""
    try:
        return answer()
    except (OatkitError, ValueError, OSError) as error:
        return JSONResponse({"error": str(error)}, status_code=400)


def _read(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
        return {"name": asked["name"], "ids": asked["ids"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError('the request is not JSON like {"name": "oat", "ids": [1, 2]}') from error


def _place(q: Any) -> tuple[int, int]:
    return _number(q, "episode"), _number(q, "frame")


def _number(q: Any, name: str) -> int:
    value = q.get(name, "")
    try:
        return int(value)
    except ValueError as error:
        raise ValueError(f"{name} is {value!r}, expected a whole number") from error
