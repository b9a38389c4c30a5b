"""The published `vla-eval` runs a benchmark against our server, by way of the bridge.

Run by `make test-vla-eval`, which gives that package an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from oatkit_client.wire import pack
from websockets.sync.server import ServerConnection, serve

from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.serve.slow import make_policy

PYTHON = os.environ.get("OATKIT_VLA_EVAL_PYTHON")
SCRIPT = Path(__file__).parent / "drive.py"

pytestmark = pytest.mark.skipif(PYTHON is None, reason="vla-eval has its own environment")


def test_vla_eval_runs_a_benchmark_against_our_server(tmp_path: Path) -> None:
    assert PYTHON is not None
    policy = make_policy(tmp_path, cameras=("front",))
    config = ServeConfig(port=0, max_batch=2, api_key="s3cret", sampling=Sampling(0))
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with serving(policy, config) as url:
        ran = subprocess.run(
            [PYTHON, str(SCRIPT), url, "s3cret", str(tmp_path / "results")],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=alone,
        )
        wrong = ("--args.api_key", "s3cret", "--args.cameras", "[side=agentview]")
        message = bridge_error(url, *wrong)
    assert ran.returncode == 0, ran.stderr
    assert message == "error: cameras has 'side=agentview', expected POLICY=BENCHMARK of: front"
    report = json.loads(ran.stdout.splitlines()[-1])
    made, first, second, made_again, third, fourth = report["got"]
    assert made["asked"] == made_again["asked"] == [True, False], "a state, and one camera"
    assert np.shape(first["actions"]) == (6, 3), "one action a step, out of two chunks"
    assert np.shape(third["actions"]) == (6, 3), "averaged, and chosen among draws"
    assert first == second, "an episode of the same observations gets the same actions"
    assert third == fourth
    chunk = first["actions"]
    assert chunk[3] != chunk[4]
    assert [result["mean_success"] for result in report["results"]] == [1.0, 1.0]
    side, front, auto = report["errors"]
    assert all("expected POLICY=BENCHMARK of: front" in error for error in (side, front))
    assert "oatkit policy calibrate" in auto


def bridge_error(url: str, *options: str) -> str:
    """What the bridge to a server says before it gives up."""
    assert PYTHON is not None
    command = [PYTHON, "-m", "oatkit_client.vla_eval_server", "--args.url", url, "--port", "0"]
    command += options
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=alone
    )
    assert ran.returncode == 2, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr.splitlines()[-1]


def test_a_server_of_openpi_and_an_absent_one_are_one_sentence() -> None:
    def greet(connection: ServerConnection) -> None:
        connection.send(pack({"policy": "pi0"}))
        connection.recv()

    with serve(greet, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            message = bridge_error(url)
        finally:
            server.shutdown()
            thread.join()
    assert message == (
        f"error: {url} does not tell its horizon, history, cameras, keys, state_dim, as servers of "
        "openpi do not: give the address of `oatkit serve`"
    )
    message = bridge_error(url)
    assert message.startswith(f"error: {url} cannot be reached (")
    assert message.endswith("): is `oatkit serve` running there?")
