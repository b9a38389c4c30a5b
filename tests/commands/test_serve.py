"""`oatkit serve` as an operator runs it."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from oatkit_client import Client, ServerError

import oatkit
from oatkit import cli
from tests.serve.process import started
from tests.serve.slow import OBSERVATION, make_policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("served"))
    return make_policy(path).save_pretrained(path / "policy")


def test_flags_reach_the_server(folder: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    flags = ["--api-key-file", str(key), "--map", "joints=observation.state", "--map", "extra="]
    more = ["--budget", "2", "--temperature", "0", "--host", "0.0.0.0"]
    more += ["--refuse-out-of-range"]
    with started(folder, *flags, *more) as server:
        process, url = server.process, server.url
        with Client(url.replace("0.0.0.0", "127.0.0.1"), "s3cret") as client:
            state, task = OBSERVATION["observation/state"], OBSERVATION["prompt"]
            reply = client.infer({"joints": state, "extra": 1, "prompt": task})
            assert reply["budget_used"] == 2
            assert client.metadata["keys"]["observation.state"] == "joints"
            with pytest.raises(ServerError, match="far outside of the training data"):
                client.infer({"joints": state + 1e6, "prompt": task})
            assert client.metadata["fingerprint"] == oatkit.load_policy(folder).digest
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
        (["--budget", "9"], "--budget 9 is outside 1 .. 8"),
        (["--decoding", "strict"], "strict or relaxed decoding is for fast, not for oat"),
        (["--map", "x=y"], "--map x=y: unknown key 'y'"),
        (["--api-key-file", str(empty)], "holds no API key"),
        (["--api-key-file", "nowhere"], "the API key nowhere cannot be read: No such file"),
        (["--tls-cert", "cert.pem"], "TLS takes both --tls-cert and --tls-key"),
        (["--tls-cert", str(empty), "--tls-key", "nowhere"], "there is no file nowhere"),
        (["--host", "300.1.1.1"], "cannot listen on '300.1.1.1', port 0 ("),
        (["--max-queue", "0"], "--max-queue is 0"),
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
