"""The services of `deploy/compose.yaml` without Docker: the same processes, on their own ports."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KEY = "a key of robots"
REPLICAS = ("one", "two")


def entrypoint() -> list[str]:
    """The words that the image of the server runs."""
    found = re.search(r"^ENTRYPOINT (\[.*\])$", (DEPLOY / "server.Dockerfile").read_text(), re.M)
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words


@dataclass(frozen=True)
class Fleet:
    """The processes, by the names of their services.

    Attributes:
        ports: Service and port in its container, such as "one:8000", to the port on this machine.
        processes: What runs.
    """

    ports: dict[str, int]
    processes: dict[str, subprocess.Popen[bytes]]

    def url(self, service: str) -> str:
        """Where clients connect to a service."""
        return f"ws://127.0.0.1:{self.ports[f'{service}:8000']}"

    def get(self, target: str, path: str, headers: dict[str, str] | None = None) -> str:
        """What a service answers to HTTP."""
        url = f"http://127.0.0.1:{self.ports[target]}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {})) as answer:
            text: str = answer.read().decode()
        return text

    def wait_for_replicas(self, count: int, seconds: float = 120.0) -> None:
        """Wait until the balancer sends clients to so many replicas."""
        end = time.monotonic() + seconds
        while self._num_replicas() != count:
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} ended with {process.returncode}"
            assert time.monotonic() < end, f"not {count} replicas after {seconds} s"
            time.sleep(0.1)

    def _num_replicas(self) -> int:
        try:
            text = self.get("balancer:8404", "/metrics")
        except OSError:
            return 0
        found = re.search(r'^haproxy_backend_active_servers\{proxy="replicas"\} (\d+)', text, re.M)
        return int(found[1]) if found else 0


@contextmanager
def fleet(policy: Path, folder: Path) -> Iterator[Fleet]:
    """Start all services but Prometheus; yields once the balancer has both replicas."""
    key = folder / "key.txt"
    key.write_text(KEY + "\n")
    targets = [*(f"{name}:8000" for name in REPLICAS), "balancer:8000", "balancer:8404"]
    ports = dict(zip(targets, _free_ports(len(targets)), strict=True))
    found = Fleet(ports, {})
    with ExitStack() as stack:
        for name in REPLICAS:
            places = {"/policy": str(policy), "/run/secrets/api_key": str(key)}
            places |= {"0.0.0.0": "127.0.0.1", "8000": str(ports[f"{name}:8000"])}
            words = [*entrypoint()[1:], *COMPOSE["services"][name]["command"]]
            command = [sys.executable, "-m", "oatkit.cli", *(places.get(w, w) for w in words)]
            found.processes[name] = stack.enter_context(_running([*command, "--max-batch", "2"]))
        asked: dict[str, str] = COMPOSE["services"]["balancer"]["environment"]
        here = {name: f"127.0.0.1:{ports[_target(address)]}" for name, address in asked.items()}
        balancer = ["haproxy", "-db", "-f", str(DEPLOY / "haproxy.cfg")]
        found.processes["balancer"] = stack.enter_context(_running(balancer, here))
        found.wait_for_replicas(len(REPLICAS))
        yield found


def _target(address: str) -> str:
    """Service and port of an address; one without a host is the balancer's own."""
    return f"balancer{address}" if address.startswith(":") else address


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [int(free.getsockname()[1]) for free in sockets]


@contextmanager
def _running(
    command: list[str], more: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, **(more or {})}
    ) as process:
        try:
            yield process
        finally:
            process.kill()
