"""`oatkit policy eval --remote`: the policy elsewhere, and no torch where the episodes run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import oatkit
from oatkit.commands.remote_options import RemoteOptions, open_remote
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.jobs.policy_evaluation import RECORD
from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from tests.commands.running import run_command
from tests.evaluation.plane import PLANE
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.plane_evaluations import outcomes, read

ROOT = Path(__file__).parents[2]
FEW = ("--env", "pusht", "--tasks", "near", "--episodes", "2", "--workers", "1")
REFUSE_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors", "transformers", "accelerate"):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse())
"""
EVALUATE_WITHOUT_TORCH = """
import sys

if __name__ == "__main__":
    from oatkit.envs.simulator_table import SIMULATORS
    from tests.evaluation.plane import PLANE

    SIMULATORS["pusht"] = PLANE
    from oatkit.cli import main

    code = main(sys.argv[1:])
    assert "torch" not in sys.modules
    sys.exit(code)
"""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return oatkit.load_policy(save_plane_policy(tmp_path_factory.mktemp("plane")))


@pytest.fixture(scope="module")
def url(policy: Policy) -> Iterator[str]:
    with serving(policy, ServeConfig(port=0, max_batch=2, api_key="a key")) as url:
        yield url


@pytest.fixture
def key(tmp_path: Path) -> str:
    (tmp_path / "key.txt").write_text("a key\n")
    return str(tmp_path / "key.txt")


def test_an_evaluation_imports_no_torch(url: str, key: str, policy: Policy, tmp_path: Path) -> None:
    """Not in this process nor in those of the simulators; record and report are there all the
    same."""
    (tmp_path / "sitecustomize.py").write_text(REFUSE_TORCH)
    (tmp_path / "evaluate.py").write_text(EVALUATE_WITHOUT_TORCH)
    paths = [tmp_path, ROOT, ROOT / "src", ROOT / "packages/oatkit-client/src"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    where = ("--remote", url, "--api-key-file", key, "--out", str(tmp_path / "there"))
    command = [sys.executable, str(tmp_path / "evaluate.py"), "policy", "eval", *where, *FEW]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "there/report.html").exists()
    record = read(tmp_path / "there" / RECORD)
    here = oatkit.evaluate(policy, PLANE, tasks=("near",), episodes=2, workers=1)
    assert outcomes(record) == outcomes(here)
    assert record.command.startswith(f"oatkit policy eval --out {tmp_path / 'there'} --remote")


def test_wrong_flags(
    url: str,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(SIMULATORS, "pusht", PLANE)
    there = ("--remote", url)
    for flags, message in (
        ((), "name one policy: the folder of an artifact, or --remote ws://host:port"),
        (("p", *there, "--api-key-file", key), "name one policy"),
        (there, "refuses this client (401): the API key is missing or wrong"),
        ((*there, "--api-key-file", f"{key}s"), "No such file"),
        (("p", "--map", "a=b"), "--map is for --remote: leave it out"),
        (("p", "--image-size", "1", "2"), "--image-size is for --remote"),
        (
            (*there, "--api-key-file", key, "--head", "tokens"),
            "--head is not for a policy elsewhere",
        ),
        (
            (*there, "--api-key-file", key, "--benchmark", "light-libero"),
            "--remote is not for --benchmark",
        ),
        (("--remote", "host"), "'host' is no address of a policy server"),
    ):
        out = ("--out", str(tmp_path / "e"))
        code, _, said = run_command(["policy", "eval", *flags, *FEW, *out], capsys)
        assert code == 2
        assert message in " ".join(said.split())
        assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "e").exists()


def test_without_an_address_there_is_no_remote_policy() -> None:
    assert open_remote(RemoteOptions(), 1.0) is None
