"""A server in the foreground: signals, deaths, and what it is called."""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from oatkit_client import Client
from oatkit_client.wire import pack, unpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from oatkit.storage.artifact import UNTRAINED
from tests.serve.process import started
from tests.serve.slow import OBSERVATION, make_policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("served"))
    policy = make_policy(path)
    for made in (policy, policy.tokenizer):
        made.extras.pop(UNTRAINED)  # its warning is no JSON
    return policy.save_pretrained(path / "policy")


def test_sigterm_finishes_what_was_taken(folder: Path) -> None:
    with started(folder, "--log-level", "debug", "--seed", "1") as server:
        process, url = server.process, server.url
        counts = [0] * 4

        def work(number: int) -> None:
            with connect(url, compression=None) as robot, suppress(ConnectionClosed):
                robot.recv()
                while True:
                    robot.send(pack({**OBSERVATION, "budget": 4}))
                    assert unpack(robot.recv())["budget_used"] == 4
                    counts[number] += 1

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(work, number) for number in range(4)]
            while min(counts) < 3:
                assert not any(one.done() for one in running)
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            for one in running:
                one.result()
    assert process.returncode == 0
    assert out.endswith("stopped\n")
    events = [json.loads(line) for line in err.splitlines()]
    names = [event["event"] for event in events]
    assert names[:2] == ["warm", "listening"]
    assert names[-1] == "stopped"
    assert "failure" not in names
    assert "error" not in names
    assert names.count("request") == sum(counts), "every request that was taken was answered"
    (request, *_) = [event for event in events if event["event"] == "request"]
    assert request["budget_used"] == 4
    assert {"queue_ms", "infer_ms", "total_ms", "batch_size", "connection"} <= set(request)


def test_clients_survive_the_death_of_the_server(folder: Path, free_port: int) -> None:
    """SIGKILL while they run: each goes on with the server that is started next."""
    counts = [0, 0, 0]
    stop = threading.Event()

    def work(number: int) -> None:
        with Client(f"ws://127.0.0.1:{free_port}", timeout_s=600) as client:
            while not stop.is_set():
                assert client.infer(OBSERVATION, budget=2)["budget_used"] == 2
                counts[number] += 1

    def wait_for_all(more: int) -> None:
        goals = [count + more for count in counts]
        while any(count < goal for count, goal in zip(counts, goals, strict=True)):
            assert not any(one.done() for one in running)
            time.sleep(0.01)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(work, number) for number in range(3)]
        try:
            with started(folder, port=free_port) as server:
                wait_for_all(5)
                server.process.send_signal(signal.SIGKILL)
                server.process.wait()
            with started(folder, port=free_port):
                wait_for_all(5)
                stop.set()
                for one in running:
                    one.result()
        finally:
            stop.set()
