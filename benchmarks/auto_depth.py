"""Milliseconds of every fixed budget and of `budget="auto"`, on observations nobody has seen.

    oatkit tokenizer train --data out/metaworld --kind oat-pow2 --num-tokens 8 --out out/oat-pow2
    oatkit policy train --data out/metaworld --tokenizer out/oat-pow2 --out out/policy
    python -m benchmarks.auto_depth --data out/metaworld --policies out/policy

Each policy is calibrated here on one half of the episodes that it held out, with several margins,
and timed on the other half: every observation alone, with every budget in turn, several times. The
median of an observation counts, and the mean over observations, because `auto` stops at other
stages for others. Policies that correct chunks take the likeliest tokens. Results of policies that
were measured before stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.record import read_results, write_result
from benchmarks.timing import median_ms_in_turns
from oatkit.commands.dataset_options import DatasetOptions
from oatkit.data import Dataset
from oatkit.jobs.artifact_split import select_episodes
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.nn.device import describe_device, resolve_device
from oatkit.policies import Policy, load_policy
from oatkit.policies.generation.early_stop import ERROR_MARGIN, MARGIN, AutoThresholds
from oatkit.policies.observation.observations import Observations
from oatkit.types import Budget, Prediction, Sampling

NAME = "auto_depth"
SEED = 0
MAX_CHUNKS = 512
MARGINS = (MARGIN, 0.5, 1.0, 2.0)
"""Limits of the distance to the chunk of all tokens, as shares of what the tokenizer loses; the
first is the one that policies are calibrated with."""
ERROR_MARGINS = (ERROR_MARGIN, 0.01, 0.05, 0.1)
"""The same where a network corrects chunks: limits of how much more they err, as shares of their
error with all tokens."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--policies", nargs="+", type=Path, required=True)
    parser.add_argument("--observations", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--note", default="", help="what a reader must know of these policies")
    args = parser.parse_args(argv)
    results = read_results(NAME)
    for path in args.policies:
        policy = load_policy(path, device=resolve_device())
        policy.head = "tokens"
        found = measure(policy, args.data, args.observations, args.repeats)
        results[title(policy)] = {"note": args.note, **found}
    settings = {
        "repeats": args.repeats,
        "margin": MARGIN,
        "error_margin": ERROR_MARGIN,
        "device": describe_device(resolve_device()),
        "threads": torch.get_num_threads(),
    }
    write_result(NAME, seed=SEED, settings=settings, results=results)


def title(policy: Policy) -> str:
    """Name of a policy's rows, such as "light, oat-pow2, 4 calls"."""
    offset = "" if policy.tokens_suffice else ", offset"
    return f"{policy.kind}, {policy.tokenizer.kind}, {policy.schedule.calls} calls{offset}"


def measure(policy: Policy, data: str, num_observations: int, repeats: int) -> dict[str, Any]:
    """Milliseconds, calls, distance to the chunk of all tokens and error over theirs, by budget."""
    held_out = select_episodes(
        policy.extras, DatasetOptions().open_for(policy, data, Console()), "val"
    )
    seen, unseen = held_out.split(0.5, seed=SEED)
    budgets: list[int | Auto] = [*policy.tokenizer.budgets, *calibrated(policy, seen)]
    observations, actions_BTA, _ = observations_to_measure(policy, unseen, num_observations)
    times_NB, predictions = time_budgets(policy, list(observations.split(1)), budgets, repeats)
    scale_A = np.asarray(policy.tokenizer.raw_normalizer.scale)
    coded_BTA = policy.tokenizer.decode(policy.tokenizer.encode(actions_BTA)).cpu()
    lost = float(np.square((coded_BTA - actions_BTA).numpy() / scale_A).mean())
    chunks = [np.concatenate([one.chunk for one in found]) for found in predictions]
    wanted_BTA = actions_BTA.numpy()
    errors = [np.abs((chunk_BTA - wanted_BTA) / scale_A).mean() for chunk_BTA in chunks]
    largest = len(policy.tokenizer.budgets) - 1
    rows = []
    for column, (budget, found) in enumerate(zip(budgets, predictions, strict=True)):
        ms, all_ms = times_NB[:, column].mean(), times_NB[:, largest].mean()
        distance = np.square((chunks[column] - chunks[largest]) / scale_A).mean() / lost
        error = errors[column] / errors[largest]
        rows.append(
            {
                "budget": budget if isinstance(budget, int) else "auto",
                "margin": None if isinstance(budget, int) else budget.margin,
                "tokens": float(np.mean([one.budget[0] for one in found])),
                "calls": float(np.mean([one.calls[0] for one in found])),
                "ms": round(float(ms), 3),
                "share_of_all": round(float(ms / all_ms), 3),
                "distance": round(float(distance), 3),
                "error": round(float(error), 3),
            }
        )
    return {
        "parameters": sum(p.numel() for p in policy.net.parameters()),
        "steps": policy.extras["train"]["steps"],
        "observations": len(observations),
        "rows": rows,
    }


@dataclass(frozen=True)
class Auto:
    """`budget="auto"` as it is with a margin."""

    margin: float
    thresholds: AutoThresholds


def calibrated(policy: Policy, episodes: Dataset) -> list[Auto]:
    """What `auto` is with each margin."""
    observations, actions_BTA, _ = observations_to_measure(policy, episodes, MAX_CHUNKS)
    found = []
    for margin in MARGINS if policy.tokens_suffice else ERROR_MARGINS:
        thresholds = policy.token_predictor.calibrate(
            observations,
            actions_BTA,
            torch.Generator().manual_seed(SEED),
            policy.rows_at_once,
            margin,
        )
        assert thresholds is not None
        found.append(Auto(margin, thresholds))
    return found


def time_budgets(
    policy: Policy,
    observations: Sequence[Observations],
    budgets: Sequence[int | Auto],
    repeats: int,
) -> tuple[NDArray[np.float64], list[list[Prediction]]]:
    """Milliseconds (observation, budget), and what was predicted, by budget and observation."""

    def predict(number: int, budget: int | Auto) -> Prediction:
        wanted: Budget = "auto" if isinstance(budget, Auto) else budget
        policy.auto = budget.thresholds if isinstance(budget, Auto) else None
        sampling = Sampling(1.0 if policy.tokens_suffice else 0.0, seed=number)
        return policy.predict_action_chunk(observations[number], budget=wanted, sampling=sampling)

    times = []
    for number in range(len(observations)):
        jobs = {str(budget): partial(predict, number, budget) for budget in budgets}
        times.append(list(median_ms_in_turns(jobs, repeats).values()))
    found = [[predict(number, b) for number in range(len(observations))] for b in budgets]
    return np.asarray(times), found


if __name__ == "__main__":
    main()
