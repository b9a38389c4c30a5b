"""`oatkit serve` under load: throughput, latency, fairness and deadlines.

    python -m benchmarks.serve_load [--clients 64] [--seconds 60]

The light policy of the paper's size from state, 16 tokens in powers of two, untrained, on loopback.
Every client asks again as soon as it is answered. "One at a time" is the same load with batches of
one. Latencies are those that clients see.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from oatkit_client import Client, ClientError

from benchmarks.policy_latency import HISTORY, STATE_DIM, made_up_data, make_policy
from benchmarks.record import write_result
from oatkit.types import Schedule

NAME = "serve_load"
SEED = 0
MAX_BATCH = 16
DEADLINES_MS = (50.0, 100.0, 200.0, 400.0)


@dataclass
class Tally:
    """What one client saw."""

    latencies_ms: list[float] = field(default_factory=list)
    budgets: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--preset", default="paper")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        policy = make_policy(args.preset, Schedule.pow2(16), made_up_data(folder / "data"))
        policy.save_pretrained(folder / "policy")
        results = measure(folder / "policy", args.clients, args.seconds)
    settings = {
        "preset": args.preset,
        "clients": args.clients,
        "seconds": args.seconds,
        "max_batch": MAX_BATCH,
    }
    write_result(NAME, seed=SEED, settings=settings, results=results)


def measure(policy: Path, num_clients: int, seconds: float) -> dict[str, Any]:
    with served(policy, 1) as url:
        one_at_a_time = load(url, num_clients, seconds)
    with served(policy, MAX_BATCH) as url:
        alone = load(url, 1, min(seconds, 10.0))
        batched = load(url, num_clients, seconds)
        deadlines = {
            f"{ms:g}": load(url, num_clients // 4 or 1, min(seconds, 20.0), ms)
            for ms in DEADLINES_MS
        }
    return {
        "one_client": alone,
        "one_at_a_time": one_at_a_time,
        "batched": batched,
        "times_faster": round(batched["per_second"] / one_at_a_time["per_second"], 2),
        "deadlines_ms": deadlines,
    }


@contextmanager
def served(policy: Path, max_batch: int) -> Iterator[str]:
    """The real command, in a process of its own."""
    command = [sys.executable, "-u", "-m", "oatkit.cli", "serve", str(policy), "--port", "0"]
    flags = ["--max-batch", str(max_batch), "--log-level", "error"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                found = re.search(r" at (ws://\S+)", line)
                if found:
                    yield found[1]
                    return
            raise RuntimeError("the server ended before it listened")
        finally:
            process.terminate()


def load(
    url: str, num_clients: int, seconds: float, deadline_ms: float | None = None
) -> dict[str, Any]:
    """So many clients for so long; what they saw together."""
    tallies = [Tally() for _ in range(num_clients)]
    start = threading.Barrier(num_clients)
    threads = [
        threading.Thread(target=_ask, args=(url, seconds, deadline_ms, start, tally))
        for tally in tallies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = np.array([ms for tally in tallies for ms in tally.latencies_ms])
    counts = [len(tally.latencies_ms) for tally in tallies]
    seen = {
        "clients": num_clients,
        "errors": sum(len(tally.errors) for tally in tallies),
        "per_second": round(len(latencies) / seconds, 1),
        "p50_ms": round(float(np.percentile(latencies, 50)), 2),
        "p99_ms": round(float(np.percentile(latencies, 99)), 2),
        "slowest_over_mean": round(min(counts) / float(np.mean(counts)), 3),
        "mean_budget": round(float(np.mean([k for t in tallies for k in t.budgets])), 2),
    }
    if deadline_ms is not None:
        seen["in_time"] = round(float((latencies <= deadline_ms).mean()), 4)
    return seen


def _ask(
    url: str,
    seconds: float,
    deadline_ms: float | None,
    start: threading.Barrier,
    tally: Tally,
) -> None:
    rng = np.random.default_rng(SEED)
    with Client(url) as client:
        client.get_server_metadata()
        start.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            state = rng.uniform(-1, 1, (HISTORY, STATE_DIM)).astype(np.float32)
            began = time.perf_counter()
            try:
                reply = client.infer({"observation/state": state}, deadline_ms=deadline_ms)
            except ClientError as error:
                tally.errors.append(str(error))
                continue
            tally.latencies_ms.append(1000 * (time.perf_counter() - began))
            tally.budgets.append(reply["budget_used"])


if __name__ == "__main__":
    main()
