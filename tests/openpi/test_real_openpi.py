"""The published `openpi-client` drives our server unchanged.

Run by `make test-openpi`, which gives that package an environment of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from oatkit.cli import main
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.serve.slow import make_policy

PYTHON = os.environ.get("OATKIT_OPENPI_PYTHON")
SCRIPT = Path(__file__).parent / "drive.py"

pytestmark = pytest.mark.skipif(PYTHON is None, reason="openpi-client has its own environment")


def test_openpis_client_and_chunk_broker_work_unchanged(tmp_path: Path) -> None:
    assert PYTHON is not None
    policy = make_policy(tmp_path, cameras=("front",))
    policy.save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    config = ServeConfig(port=0, max_batch=2, api_key="s3cret", sampling=Sampling(0))
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with serving(policy, config) as url:
        ran = subprocess.run(
            [PYTHON, str(SCRIPT), url, "s3cret", str(tmp_path / "onnx")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=alone,
        )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["numpy"].startswith("1."), "openpi-client needs numpy below 2"
    assert report["horizon"] == 8
    assert np.shape(report["actions"]) == (8, 3)
    assert np.isfinite(report["actions"]).all()
    assert {"actions", "server_timing", "tokens", "budget_used", "entropy"} <= set(report["keys"])
    assert report["budget_used"] == [8, 2]
    assert report["steps"] == [16, 3], "one action a step out of two chunks"
    assert report["ours"] == [8, 3]
    assert report["tokens"][0] == report["tokens"][1]
    assert report["closeness"] < 1e-3, "what the robot decodes is what the server decodes"
    assert report["error"].startswith("Error in inference server:\nobservation/state is (3,)")
