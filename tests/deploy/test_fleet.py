"""Two replicas behind the balancer: robots go on when one of them hangs or dies."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("prometheus_client", reason="needs the extra serve")

from oatkit_client import Client, RealTimeChunks

from tests.deploy.fleet import DEPLOY, KEY, REPLICAS, Fleet, fleet
from tests.serve.slow import OBSERVATION, make_policy

pytestmark = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="needs haproxy: apt-get install haproxy"
)
NUM_ROBOTS = 4
RATE_HZ = 15


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    policy = make_policy(folder).save_pretrained(folder / "policy")
    with fleet(Path(policy), folder) as found:
        yield found


class Robot(threading.Thread):
    """A control loop; whatever it raises is kept in `error`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.error: BaseException | None = None
        self.fresh: list[float] = []
        """Times of steps whose action answers a fresh observation."""
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            with (
                Client(self.url, KEY) as client,
                RealTimeChunks(client, execute=4, limit_ms=40, meanwhile="hold") as chunks,
            ):
                chunks.prepare(OBSERVATION)
                while not self.is_over.wait(1 / RATE_HZ):
                    assert np.isfinite(chunks.step(OBSERVATION)).all()
                    if not chunks.is_stale:
                        self.fresh.append(time.monotonic())
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self.error = error

    def acts_after(self, moment: float) -> bool:
        """Whether it has acted on a fresh observation since then, or failed."""
        return self.error is not None or (bool(self.fresh) and self.fresh[-1] > moment)


def wait_until_all_act(robots: list[Robot], moment: float, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not all(robot.acts_after(moment) for robot in robots):
        assert time.monotonic() < end, "a robot only holds its position"
        time.sleep(0.05)
    assert [robot.error for robot in robots] == [None] * len(robots)


def connections(running: Fleet, name: str) -> float:
    headers = {"Authorization": f"Api-Key {KEY}"}
    lines = running.get(f"{name}:8000", "/metrics", headers).splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith("oatkit_connections "))


def wait_until_connected(running: Fleet, name: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while connections(running, name) != NUM_ROBOTS:
        assert time.monotonic() < end, f"not all robots have come to {name}"
        time.sleep(0.05)


def test_all_that_prometheus_reads_is_there(running: Fleet) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    for job in config["scrape_configs"]:
        scheme = job.get("authorization", {}).get("type")
        headers = {"Authorization": f"{scheme} {KEY}"} if scheme else {}
        for target in job["static_configs"][0]["targets"]:
            text = running.get(target, "/metrics", headers)
            wanted = "oatkit_connections" if job["job_name"] == "oatkit" else "haproxy_backend_"
            assert wanted in text, target


def test_replicas_answer_alike(running: Fleet) -> None:
    """No replica has a state that the other lacks: the same seed gives the same chunk."""
    replies = []
    for name in REPLICAS:
        with Client(running.url(name), KEY) as client:
            replies.append(client.infer(OBSERVATION, sampling={"seed": 3})["actions"])
    np.testing.assert_array_equal(*replies)


def test_robots_go_on_when_a_replica_hangs_and_when_it_dies(running: Fleet) -> None:
    robots = [Robot(running.url("balancer")) for _ in range(NUM_ROBOTS)]
    for robot in robots:
        robot.start()
    try:
        wait_until_all_act(robots, time.monotonic())
        assert all(connections(running, name) > 0 for name in REPLICAS), "they are shared out"
        victim = running.processes["one"]
        victim.send_signal(signal.SIGSTOP)
        running.wait_for_replicas(1)
        wait_until_connected(running, "two")
        wait_until_all_act(robots, time.monotonic())
        victim.send_signal(signal.SIGCONT)
        running.wait_for_replicas(2)
        running.processes["two"].kill()
        wait_until_connected(running, "one")
        wait_until_all_act(robots, time.monotonic())
    finally:
        for robot in robots:
            robot.is_over.set()
        for robot in robots:
            robot.join()
    assert [robot.error for robot in robots] == [None] * NUM_ROBOTS
