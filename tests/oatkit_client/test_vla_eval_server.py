"""The bridge to vla-eval on a stand-in for that package; `tests/vla_eval` has the real one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from oatkit_client import ChunkQueue, Client

from oatkit.policies import Policy
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.policies import tiny
from tests.serve.slow import make_policy

STANDIN = Path(__file__).parent / "standin_for_vla_eval"
BRIDGE = "oatkit_client.vla_eval_server"
HORIZON = 8


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the bridge, imported beside the stand-in."""
    monkeypatch.syspath_prepend(STANDIN)
    yield import_module(BRIDGE)
    for name in [name for name in sys.modules if name.partition(".")[0] == "vla_eval"]:
        del sys.modules[name]
    del sys.modules[BRIDGE]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a policy is served that reads a state and finds two steps worth executing."""
    policy = make_policy(tmp_path_factory.mktemp("policy"), history=2)
    knows = Policy(policy.model, execution=AutoExecution((), ((1.0,) * 2 + (9.0,) * 6,)))
    with serving(knows, ServeConfig(port=0, sampling=Sampling(1))) as found:
        yield found


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a policy is served that sees a camera, and does not know how much to execute."""
    policy = make_policy(tmp_path_factory.mktemp("policy"), cameras=("front",))
    with serving(policy, ServeConfig(port=0)) as found:
        yield found


def observations(number: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(number, tiny.STATE_DIM)).astype(np.float32)
    return [{"states": state, "task_description": tiny.TASKS[0]} for state in states]


def play(bridge: ModuleType, server: Any, seen: list[dict[str, Any]]) -> list[Any]:
    """The actions of an episode, one for each observation."""
    context = bridge.SessionContext("session")

    async def episode() -> None:
        await server.on_episode_start({}, context)
        for observation in seen:
            await server.on_observation(observation, context)
        await server.on_episode_end({}, context)

    asyncio.run(episode())
    return [sent["actions"] for sent in context.sent]


class Seeded:
    """A client whose random numbers are those of the bridge."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.asked_at: list[int] = []
        self.step = 0
        self.action_scale = client.action_scale

    def infer(self, obs: Any, **request: Any) -> Any:
        self.asked_at.append(self.step)
        self._client.reset()
        return self._client.infer(obs, sampling={"seed": 3 + self.step}, **request)

    def reset(self) -> None:
        pass


@pytest.mark.parametrize(
    ("options", "asked_at"),
    [
        ({}, [0, 4, 8]),
        ({"execute": 3}, [0, 3, 6, 9]),
        ({"execute": "auto"}, [0, 2, 4, 6, 8]),
        ({"execute": 2, "blend": 0.1}, [0, 2, 4, 6, 8]),
        ({"draws": 3}, [0, 4, 8]),
        ({"budget": 2, "execute": 3, "blend": 0.5, "draws": 2}, [0, 3, 6, 9]),
    ],
    ids=str,
)
def test_chunks_are_executed_as_on_a_robot(
    bridge: ModuleType, url: str, options: dict[str, Any], asked_at: list[int]
) -> None:
    """The actions are those of a `ChunkQueue` that is given the same frames."""
    seen = observations(10)
    server = bridge.VlaEvalServer(url, seed=3, **options)
    found = play(bridge, server, seen)
    with Client(url) as client:
        policy = Seeded(client)
        queue = ChunkQueue(policy, **{"execute": None, "blend": None, **options})
        for number, action in enumerate(found):
            policy.step = number
            frames = [seen[max(number - 1, 0)]["states"], seen[number]["states"]]
            message = {"observation/state": np.stack(frames), "prompt": tiny.TASKS[0]}
            np.testing.assert_array_equal(action, np.asarray(queue.step(message), np.float32))
    assert policy.asked_at == asked_at
    assert len(found) == 10


def test_an_episode_repeats_itself_and_ends(bridge: ModuleType, url: str) -> None:
    server = bridge.VlaEvalServer(url, execute=3, blend=0.1)
    seen = observations(7)
    np.testing.assert_array_equal(play(bridge, server, seen), play(bridge, server, seen))
    assert server._episodes == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"execute": HORIZON + 1}, "execute is 9, expected 1 to 8, the steps of a chunk"),
        ({"execute": 0}, "execute is 0, expected a whole number from 1 on, 'auto' or None"),
        ({"execute": "all"}, "execute is 'all', expected a whole number from 1 on"),
        ({"execute": "auto"}, "execute is 'auto', but the policy does not know .* calibrate`"),
        ({"blend": -1.0}, "blend is -1.0, expected a finite number from 0 on, or None"),
        ({"draws": 0}, "draws is 0, expected 1 or more"),
        ({"cameras": ["side=left"]}, "cameras has 'side=left', expected POLICY=BENCHMARK of: fro"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_served(
    bridge: ModuleType, seeing: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bridge.VlaEvalServer(seeing, **options)


def test_a_robot_that_the_server_does_not_know_is_refused(bridge: ModuleType, url: str) -> None:
    with pytest.raises(bridge.ClientError, match="robots one without a name, not for 'panda'"):
        bridge.VlaEvalServer(url, embodiment="panda")


def run_bridge(*args: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """The command, where vla-eval is as `path` has it."""
    found = os.pathsep.join(filter(None, [path, *sys.path]))
    return subprocess.run(
        [sys.executable, "-m", BRIDGE, *args],
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_vla_eval_its_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "vla_eval.py").write_text("raise ModuleNotFoundError('No module named vla_eval')")
    ran = run_bridge(path=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: this needs the package vla-eval (No module named vla_eval): pip install "
        "'oatkit-client[vla-eval]'\n"
    )


def test_wrong_options_are_one_sentence(seeing: str) -> None:
    ran = run_bridge("--args.url", seeing, "--args.cameras", "[side=left]", path=str(STANDIN))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: cameras has 'side=left', expected POLICY=BENCHMARK of: front\n"


def test_an_absent_server_is_one_sentence(bridge: ModuleType) -> None:
    ran = run_bridge("--args.url", "http://127.0.0.1:1", path=str(STANDIN))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: 'http://127.0.0.1:1' is no address, expected ws://host:port\n"
