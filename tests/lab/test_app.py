"""The lab over HTTP, and what it refuses."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="needs the extra lab")

from oatkit.lab import Lab
from oatkit.lab.app import _listening, serve_lab, serving


@pytest.fixture(scope="module")
def url(lab: Lab) -> Iterator[str]:
    with serving(lab) as url:
        yield url


def ask(url: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, Any]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)) as connection:
        method = "GET" if body is None else "POST"
        text = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, body=text, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers


def test_the_page_may_ask_nobody_else(url: str) -> None:
    status, page, headers = ask(url, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>Prefix lab</title>" in page
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_answers_are_those_of_the_lab(url: str, lab: Lab) -> None:
    assert json.loads(ask(url, "/api/facts")[1]) == json.loads(json.dumps(lab.facts()))
    assert json.loads(ask(url, "/api/episode?episode=3")[1]) == lab.episode(3)
    chunk = lab.chunk(3, 4)
    assert json.loads(ask(url, "/api/chunk?episode=3&frame=4")[1]) == chunk
    asked = {"name": "klt", "ids": chunk["encoded"][0]["ids"]}
    assert json.loads(ask(url, "/api/decode", asked)[1]) == chunk["encoded"][0]["decoded"]
    assert json.loads(ask(url, "/api/influence", asked)[1]) == lab.influence(**asked)
    camera = lab.facts()["cameras"][0]["name"]
    status, image, headers = ask(url, f"/api/image?episode=3&frame=4&camera={camera}")
    assert (status, headers["content-type"], image[:3]) == (200, "image/jpeg", b"\xff\xd8\xff")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/api/chunk?episode=99&frame=0", None, "episode 99 does not exist: there are 12"),
        ("/api/chunk?episode=0&frame=-1", None, "frame -1 of episode 0 does not exist"),
        ("/api/chunk?episode=first", None, "episode is 'first', expected a whole number"),
        ("/api/chunk?episode=1", None, "frame is '', expected a whole number"),
        ("/api/image?episode=0&frame=0&camera=top", None, "unknown camera 'top'"),
        ("/api/decode", {"name": "klt", "ids": [9999]}, "id 9999 at slot 0"),
        ("/api/decode", {"name": "klt", "ids": "abc"}, "ids are not a list of whole numbers"),
        ("/api/decode", {"name": "quest", "ids": [1]}, "quest decodes only all of its tokens"),
        ("/api/decode", {"ids": [1]}, "the request is not JSON like"),
        ("/api/influence", "{", "the request is not JSON like"),
        ("/api/influence", "[1]", "the request is not JSON like"),
    ],
)
def test_bad_requests_get_a_message(url: str, path: str, body: Any, message: str) -> None:
    status, reply, _ = ask(url, path, body)
    assert status == 400
    assert message in json.loads(reply)["error"]


def test_other_names_for_this_machine_are_not_answered(url: str) -> None:
    assert ask(url, "/api/facts", Host="evil.example")[0] == 400
    assert ask(url, "/api/facts", Host=f"localhost:{urlsplit(url).port}")[0] == 200


def test_answers_do_not_wait_for_the_client() -> None:
    """asyncio sends at once (TCP_NODELAY) only on sockets that call themselves TCP."""
    with _listening(0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_a_port_in_use_is_named(lab: Lab) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} cannot be used .* --port"):
            serve_lab(lab, port, lambda _: None)
    with pytest.raises(ValueError, match="port is 70000, expected 0 to 65535"):
        serve_lab(lab, 70000, lambda _: None)
