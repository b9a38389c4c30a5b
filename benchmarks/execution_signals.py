"""What a prediction says of its own error: entropy of its tokens, agreement with the plan before,
consensus of several draws.

    python -m benchmarks.control --rows oat oat-pow2 quest light-flow    # trains the policies
    python -m benchmarks.execution_signals [--rows oat quest] [--seeds 0 1]
    python -m benchmarks.execution_signals --tiny                        # seconds; means nothing

`execute="auto"` decides by the first alone. Here policies of `benchmarks.control` predict a chunk
for every observation of the episodes that they held out, with the likeliest tokens as they act, and
signals and error of every chunk are compared. Policies that are not trained are left out. Rows are
saved one by one, and a policy that was measured before is measured again only where its weights
have changed.

Shape letters: N observation, D draw, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray

import oatkit
from benchmarks import control
from benchmarks.control_times import observations as spread_observations
from benchmarks.policy_table import open_with_full_state
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.signal_statistics import (
    Compared,
    Numbers,
    correlations,
    expected_error,
    explained_shares,
    saved_shares,
    steps_by,
)
from benchmarks.timing import median_ms_in_turns
from benchmarks.tokenizer_rate_distortion import OUT, metaworld
from oatkit.jobs.artifact_split import select_episodes
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.policies import load_policy
from oatkit.policies.observation.observations import Observations
from oatkit.types import Sampling

NAME = "execution_signals"
SEED = 0
GAP = 4
"""Steps between a chunk and the one whose plan it is compared with."""
SIGNAL_STEPS = 8
"""First steps of a chunk over which agreement and consensus are taken."""
ERROR_STEPS = (2, 4, 8, 16)
"""Numbers of first steps whose error is compared."""
DECIDED_STEPS = 4
"""First steps whose expected error decides how many are executed, as many as "auto" takes."""
DRAWS = 8
ROWS_AT_ONCE = 64
ENTROPY, AGREEMENT, CONSENSUS = "entropy", "agreement", "consensus"
SETS = {
    "tokens": (
        (ENTROPY,),
        (AGREEMENT,),
        (CONSENSUS,),
        (ENTROPY, AGREEMENT),
        (ENTROPY, CONSENSUS),
        (ENTROPY, AGREEMENT, CONSENSUS),
    ),
    "flow": ((AGREEMENT,), (CONSENSUS,), (AGREEMENT, CONSENSUS)),
}
"""Signals that are regressed together, by what a policy's head has; the others are compared with
the first."""


@dataclass(frozen=True)
class Options:
    """What is measured."""

    rows: tuple[str, ...] = ("oat", "oat-pow2", "quest", "light-flow")
    """Policies of `benchmarks.control`; those that are not trained are left out."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of their training."""
    repeats: int = 20
    """Number of times that a query is timed."""
    policies: Path = OUT / control.NAME
    """Where `benchmarks.control` keeps its policies."""
    data: Path | None = None
    """Demonstrations; those of `benchmarks.control` by default."""
    tiny: bool = False
    """Whether only to show that everything runs; policies are then trained for some steps."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Signals and errors of chunks, normalized units.

    Attributes:
        signals: Signal to its values (N,).
        step_error: Error of each step (N, T), the root mean square over dimensions.
        episode: Episode of each observation (N,).
    """

    signals: dict[str, Numbers]
    step_error: Numbers
    episode: NDArray[np.int64]

    def error(self, steps: int) -> Numbers:
        """The error of the first steps, (N,)."""
        error_N: Numbers = np.sqrt(np.square(self.step_error[:, :steps]).mean(axis=1))
        return error_N

    def expected(self, names: Sequence[str], error_N: Numbers) -> Numbers:
        """The logarithm of an error as some of the signals have it, (N,)."""
        return expected_error([self.signals[name] for name in names], error_N, self.episode)


def main(options: Options) -> None:
    keep_apart(options.tiny)
    torch.set_num_threads(1)
    data = options.data or metaworld()
    if options.tiny:
        options = replace(options, seeds=(0,), repeats=1, policies=options.policies / "tiny")
        tiny = replace(control.Options(), tiny=True, out=options.policies, **control.TINY)
        for name in options.rows:
            control.trained(tiny, data, name, 0)
    dataset = open_with_full_state(data)
    for name, seed, folder in folders(options):
        policy, key = load_policy(folder), f"{name}/{seed}"
        if read_results(NAME).get(key, {}).get("digest") == policy.digest:
            print(f"{key} is finished")
            continue
        print(key, flush=True)
        row = {"row": name, "seed": seed, **measure(policy, dataset, options.repeats)}
        results = {**read_results(NAME), key: row}
        write_result(NAME, seed=SEED, settings=settings(), results=results)


def settings() -> dict[str, Any]:
    """What all rows share."""
    return {"gap": GAP, "signal_steps": SIGNAL_STEPS, "draws": DRAWS, "temperature_of_draws": 1.0}


def folders(options: Options) -> Iterator[tuple[str, int, Path]]:
    """Row and seed to the folder of every policy that is there."""
    trained = replace(control.Options(), out=options.policies)
    if options.tiny:
        trained = replace(trained, tiny=True, **control.TINY)
    for name in options.rows:
        for seed in options.seeds:
            folder = control.policy_folder(trained, name, seed)
            if (folder / "config.json").exists():
                yield name, seed, folder


def measure(policy: oatkit.Policy, dataset: oatkit.Dataset, repeats: int) -> dict[str, Any]:
    """A row: how well each signal says the error, and what a query costs without and with draws."""
    found = signals_and_errors(policy, select_episodes(policy.extras, dataset, "val"))
    sets = SETS[policy.head]
    by_steps = {}
    for steps in ERROR_STEPS:
        error_N = found.error(steps)
        how = (error_N, found.episode, SEED)
        expected = [found.expected(names, error_N) for names in sets]
        by_steps[str(steps)] = {
            "error": float(error_N.mean()),
            "correlation": {
                name: asdict(each) for name, each in correlations(found.signals, *how).items()
            },
            "explained": named(sets, explained_shares(expected, *how)),
        }
    return {
        "digest": policy.digest,
        "kind": policy.tokenizer.kind,
        "head": policy.head,
        "steps": policy.extras["train"]["steps"],
        "episodes": len(np.unique(found.episode)),
        "observations": len(found.episode),
        "signals": {name: float(each_N.mean()) for name, each_N in found.signals.items()},
        "ms": query_ms(policy, dataset, repeats),
        "by_steps": by_steps,
        "executed": executed(found, sets),
    }


def executed(found: Measured, sets: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """What tables of each set of signals decide to execute, and what that saves."""
    error_NT, episode_N = found.step_error, found.episode
    error_N = found.error(DECIDED_STEPS)
    expected = [found.expected(names, error_N) for names in sets]
    steps = [steps_by(each_N, error_NT, episode_N) for each_N in expected]
    rows = named(sets, saved_shares(steps, error_NT, episode_N, SEED))
    return [{**row, "steps": float(own_N.mean())} for row, own_N in zip(rows, steps, strict=True)]


def named(sets: Sequence[Sequence[str]], found: Sequence[Compared]) -> list[dict[str, Any]]:
    """Results with the signals that they are of, as JSON."""
    pairs = zip(sets, found, strict=True)
    return [{"signals": list(names), **asdict(each)} for names, each in pairs]


def signals_and_errors(policy: oatkit.Policy, held_out: oatkit.Dataset) -> Measured:
    """Signals and errors of all chunks that have one before them and are not cut short."""
    lengths = np.asarray(held_out.episode_lengths)
    observations, actions_NTA, _ = observations_to_measure(policy, held_out, int(lengths.sum()))
    scale_A = np.asarray(policy.tokenizer.raw_normalizer.scale)
    episode_N = np.repeat(np.arange(len(lengths)), lengths)
    frame_N = np.concatenate([np.arange(length) for length in lengths])
    longest = max(SIGNAL_STEPS, *ERROR_STEPS)
    kept_N = np.flatnonzero((frame_N >= GAP) & (frame_N + longest <= lengths[episode_N]))
    chunk_NTA, entropy_N = likeliest(policy, observations)
    chunk_NTA = chunk_NTA / scale_A
    off_NTA = chunk_NTA - actions_NTA.numpy() / scale_A
    planned_NTA = chunk_NTA[kept_N - GAP, GAP : GAP + SIGNAL_STEPS]
    signals = {
        AGREEMENT: root_mean_square(chunk_NTA[kept_N, :SIGNAL_STEPS] - planned_NTA),
        CONSENSUS: spread(policy, observations, scale_A)[kept_N],
    }
    if policy.head == "tokens":
        signals = {ENTROPY: entropy_N[kept_N], **signals}
    error_NT = np.sqrt(np.square(off_NTA[kept_N, :longest]).mean(axis=2))
    return Measured(signals, error_NT, episode_N[kept_N])


def root_mean_square(values_NTA: Numbers) -> Numbers:
    """The root of the mean square over steps and dimensions, (N,)."""
    found_N: Numbers = np.sqrt(np.square(values_NTA).mean(axis=(1, 2)))
    return found_N


def likeliest(policy: oatkit.Policy, observations: Observations) -> tuple[Numbers, Numbers]:
    """Raw chunks (N, T, A) as the policy executes them, and the mean entropy of their tokens."""
    chunks, entropies = [], []
    for block in observations.split(ROWS_AT_ONCE):
        found = policy.predict_action_chunk(block, sampling=Sampling(temperature=0.0, seed=SEED))
        chunks.append(found.chunk)
        is_decoded = np.arange(found.entropy_bits.shape[1]) < found.budget[:, None]
        summed = (found.entropy_bits * is_decoded).sum(axis=1)
        entropies.append(summed / np.maximum(found.budget, 1))
    return np.concatenate(chunks).astype(np.float64), np.concatenate(entropies).astype(np.float64)


def spread(policy: oatkit.Policy, observations: Observations, scale_A: Numbers) -> Numbers:
    """How far draws of the same observation are from their mean over the first steps, (N,)."""
    found = []
    for number, block in enumerate(observations.split(ROWS_AT_ONCE)):
        sampling = Sampling(temperature=1.0, seed=SEED + number)
        drawn = policy.predict_action_chunk(block, sampling=sampling, draws=DRAWS).draws
        normal_NDTA = drawn[:, :, :SIGNAL_STEPS].astype(np.float64) / scale_A
        away_NDTA = normal_NDTA - normal_NDTA.mean(axis=1, keepdims=True)
        found.append(root_mean_square(away_NDTA.reshape(len(block), -1, len(scale_A))))
    return np.concatenate(found)


def query_ms(policy: oatkit.Policy, dataset: oatkit.Dataset, repeats: int) -> dict[str, float]:
    """Median milliseconds of a query of one observation, with one draw and with several."""
    read = policy.read(spread_observations(dataset, 1)[0], allow_more=True)
    sampling = Sampling(temperature=0.0, seed=SEED)

    def ask(draws: int) -> object:
        return policy.predict_action_chunk(read, sampling=sampling, draws=draws)

    jobs = {str(draws): (lambda draws=draws: ask(draws)) for draws in (1, DRAWS)}
    return {name: round(ms, 3) for name, ms in median_ms_in_turns(jobs, repeats).items()}


if __name__ == "__main__":
    main(tyro.cli(Options, args=sys.argv[1:]))
