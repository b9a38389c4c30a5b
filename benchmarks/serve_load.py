"""`oatkit serve` under load: throughput, latency, fairness and deadlines.

    python -m benchmarks.serve_load [--clients 64] [--seconds 60]

The light policy of the paper's size from state, 16 tokens in powers of two, untrained, on loopback.
Every client asks again as soon as it is answered. "One at a time" is the same load with batches of
one. Latencies are those that clients see.

Deadlines are multiples of what a quarter of the clients wait for a first prefix (99th percentile,
queueing included), so that this fits on any machine. The record names requirements that were not
met, and how busy the machine was with other work, which makes all numbers worse.
"""

from __future__ import annotations

import argparse
import os
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
from benchmarks.record import keep_apart, write_result
from oatkit.types import Schedule

NAME = "serve_load"
SEED = 0
NUM_TIMES_FASTER = 3
MAX_BATCH = 16
DEADLINES = (1.5, 3.0, 6.0)
"""Deadlines in units of the time that a first prefix takes."""


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
    keep_apart(args.preset == "tiny")
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        policy = make_policy(args.preset, Schedule.pow2(16), made_up_data(folder / "data"))
        policy.save_pretrained(folder / "policy")
        results = measure(folder / "policy", args.clients, args.seconds)
    results["unmet"] = unmet(results)
    settings = {
        "preset": args.preset,
        "clients": args.clients,
        "seconds": args.seconds,
        "max_batch": MAX_BATCH,
        "load_before": round(load_before, 2),
    }
    write_result(NAME, seed=SEED, settings=settings, results=results)


def measure(policy: Path, num_clients: int, seconds: float) -> dict[str, Any]:
    with served(policy, 1) as url:
        one_at_a_time = load(url, num_clients, seconds)
    with served(policy, MAX_BATCH) as url:
        alone = load(url, 1, min(seconds, 10.0))
        batched = load(url, num_clients, seconds)
        few, short_s = num_clients // 4 or 1, min(seconds, 20.0)
        first = load(url, few, short_s, budget=1)
        deadlines = {}
        for times in DEADLINES:
            ms = float(np.ceil(times * first["p99_ms"]))
            deadlines[f"{ms:g}"] = load(url, few, short_s, deadline_ms=ms)
    return {
        "one_client": alone,
        "one_at_a_time": one_at_a_time,
        "batched": batched,
        "times_faster": round(batched["per_second"] / one_at_a_time["per_second"], 2),
        "first_prefix": first,
        "deadlines_ms": deadlines,
    }


def unmet(results: dict[str, Any]) -> list[str]:
    """Requirements that were not met."""
    batched, deadlines = results["batched"], results["deadlines_ms"]
    loads = {"batched": batched, "one at a time": results["one_at_a_time"], **deadlines}
    wanted = {
        f"{NUM_TIMES_FASTER} times the replies of one at a time": results["times_faster"]
        >= NUM_TIMES_FASTER,
        "the slowest client has half of the mean": batched["slowest_over_mean"] >= 0.5,
        **{f"no errors ({name})": not row["errors"] for name, row in loads.items()},
        **{f"99 % within {ms} ms": row["in_time"] >= 0.99 for ms, row in deadlines.items()},
    }
    return [requirement for requirement, is_met in wanted.items() if not is_met]


@contextmanager
def served(policy: Path, max_batch: int) -> Iterator[str]:
    """Run `oatkit serve` in a process of its own; gives its address."""
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
    url: str,
    num_clients: int,
    seconds: float,
    *,
    budget: int | None = None,
    deadline_ms: float | None = None,
) -> dict[str, Any]:
    """Send requests from so many clients for so long; gives what they saw together."""
    request = {"budget": budget, "deadline_ms": deadline_ms}
    tallies = [Tally() for _ in range(num_clients)]
    start = threading.Barrier(num_clients)
    threads = [
        threading.Thread(target=_ask, args=(url, seconds, request, start, tally))
        for tally in tallies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(tally.latencies_ms for tally in tallies):
        problems = [error for tally in tallies for error in tally.errors]
        raise RuntimeError(
            f"a client was never answered: {problems[:1] or 'the time was too short'}"
        )
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
    request: dict[str, Any],
    start: threading.Barrier,
    tally: Tally,
) -> None:
    rng = np.random.default_rng(SEED)
    with Client(url, timeout_s=120.0, connect_timeout_s=60.0) as client:
        try:
            client.get_server_metadata()
        except ClientError as error:
            tally.errors.append(str(error))
            start.abort()
        try:
            start.wait()
        except threading.BrokenBarrierError:
            return
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            state = rng.uniform(-1, 1, (HISTORY, STATE_DIM)).astype(np.float32)
            began = time.perf_counter()
            try:
                reply = client.infer({"observation/state": state}, **request)
            except ClientError as error:
                tally.errors.append(str(error))
                continue
            tally.latencies_ms.append(1000 * (time.perf_counter() - began))
            tally.budgets.append(reply["budget_used"])


if __name__ == "__main__":
    main()
