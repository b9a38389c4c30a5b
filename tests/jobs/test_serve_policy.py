"""`oatkit serve` as an operator runs it."""

from __future__ import annotations

import json
import signal
import socket
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

from oatkit import cli
from oatkit.commands.serve import artifact_fingerprint
from tests.serve.process import started
from tests.serve.slow import OBSERVATION, make_policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("served"))
    return make_policy(path).save_pretrained(path / "policy")


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


def test_flags_reach_the_server(folder: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    flags = ["--api-key-file", str(key), "--map", "joints=observation.state", "--map", "extra="]
    more = ["--budget", "2", "--temperature", "0", "--host", "0.0.0.0"]
    with started(folder, *flags, *more) as server:
        process, url = server.process, server.url
        with Client(url.replace("0.0.0.0", "127.0.0.1"), "s3cret") as client:
            state, task = OBSERVATION["observation/state"], OBSERVATION["prompt"]
            reply = client.infer({"joints": state, "extra": 1, "prompt": task})
            assert reply["budget_used"] == 2
            assert client.metadata["keys"]["observation.state"] == "joints"
            assert client.metadata["fingerprint"] == artifact_fingerprint(folder)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "WARNING: the API key and all observations cross the network to 0.0.0.0" in err
    assert "s3cret" not in err


def test_what_is_wrong_is_said_before_listening(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for flags, problem in (
        (["--budget", "9"], "budget 9 is outside 1 .. 8"),
        (["--map", "x=y"], "--map x=y: unknown key 'y'"),
        (["--api-key-file", str(empty)], "holds no API key"),
        (["--api-key-file", "nowhere"], "the API key nowhere cannot be read: No such file"),
        (["--tls-cert", "cert.pem"], "TLS takes both --tls-cert and --tls-key"),
        (["--tls-cert", str(empty), "--tls-key", "nowhere"], "there is no file nowhere"),
        (["--host", "300.1.1.1"], "cannot listen on '300.1.1.1', port 0 ("),
        (["--max-queue", "0"], "max_queue is 0"),
    ):
        assert cli.main(["serve", str(folder), "--port", "0", *flags]) == 2
        assert problem in capsys.readouterr().err
    assert cli.main(["serve", str(folder / "tokenizer"), "--port", "0"]) == 2
    assert "holds oatkit/tokenizer, expected oatkit/policy" in capsys.readouterr().err
    assert cli.main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert (
        "is no policy artifact, it has no config.json: `oatkit policy train` writes one"
        in capsys.readouterr().err
    )


def test_a_port_that_is_taken_is_said_before_loading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert cli.main(["serve", str(tmp_path / "nowhere"), "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"cannot listen on '127.0.0.1', port {port} (Address already in use)" in said
    assert "choose another --port" in said


def test_the_fingerprint_is_of_the_policy_alone(folder: Path) -> None:
    before = artifact_fingerprint(folder)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "notes.json").write_text("{}")
    assert artifact_fingerprint(folder) == before
    config = folder / "config.json"
    text = config.read_text()
    config.write_text(text + "\n")
    assert artifact_fingerprint(folder) != before
    config.write_text(text)
