"""Milliseconds of a query, of all policies that act in closed loop, measured in turns.

    python -m benchmarks.control_times [--observations 40] [--repeats 5]

`benchmarks.control` and `benchmarks.neighbors` time a policy beside whatever runs on the machine at
that moment, so their times do not compare. Here all policies that `benchmarks.control` has trained
(seed 0, or the first seed that is there) answer for the same observations one after the other,
again and again, so that other work slows all of them down alike. Every round has an order of its
own, drawn at random with a seed, and a policy answers once untimed right before it is timed, so
that nobody pays for the caches that another left behind: in the fixed order of before, `oat` with
one token always came after Diffusion Policy and took longer than with two. The time of a given
number of tokens or Euler steps does not depend on the weights: LeRobot's policies, and those of
`benchmarks.control` that are not there, are trained for seconds, and of the latter only what has a
fixed length is timed. A run that times some policies alone leaves the others as they are: `oat`
with all tokens is timed in every run, and the page calls what is of another run an estimate.

    python -m benchmarks.control_times --rows "fast, relaxed, 2500 steps" --kinds
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
import tyro

import oatkit
from benchmarks import control, neighbors
from benchmarks.control_drawing import NAMES
from benchmarks.policy_table import open_with_full_state
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, metaworld
from oatkit.jobs.row_runs import folder_name
from oatkit.policies import ActingPolicy, load_policy
from oatkit.types import Budget, Sampling, budget_name
from oatkit.types.observation_keys import STATE, TASK

NAME = "control_times"
REFERENCE = "oat"
"""The policy that is timed in every run."""
MINUTES = 0.05
"""CPU minutes of training of a policy of LeRobot."""
ORDER = 0
"""Seed of the orders in which policies are asked."""

Observation = Mapping[str, Any]
Query = Callable[[Observation], float]
"""Milliseconds of the answer to an observation."""


@dataclass(frozen=True)
class Options:
    """What is timed."""

    rows: tuple[str, ...] = tuple(name for name in control.ROWS if name in NAMES)
    """Policies of `benchmarks.control`; those that are drawn by default."""
    kinds: tuple[str, ...] = tuple(neighbors.SETTINGS)
    """Policies of LeRobot, as they were trained; none without its environment."""
    observations: int = 40
    """Number of observations, of episodes that were held out."""
    repeats: int = 5
    """Number of times that every policy answers for each."""
    python: Path = neighbors.LEROBOT
    """Python that has LeRobot."""
    policies: Path = control.Options.out
    """Where `benchmarks.control` keeps its policies."""
    data: Path | None = None
    """Demonstrations; those of `benchmarks.control` by default."""
    out: Path = OUT / NAME
    """Where policies are kept that are trained for seconds."""


def main(options: Options) -> None:
    torch.set_num_threads(1)  # as the worker of LeRobot's policies does
    data = options.data or metaworld()
    dataset = open_with_full_state(data)
    queries = dict(ours(options, data))
    with ExitStack() as open_policies:
        for kind, policy in theirs(options, dataset):
            opened = open_policies.enter_context(policy)
            queries[kind, None] = partial(milliseconds, opened, None)
        found = time_in_turns(queries, observations(dataset, options.observations), options.repeats)
    reference_ms = found[REFERENCE, control.LIGHT["num_tokens"]]
    timed: dict[str, dict[str, Any]] = {}
    for (name, budget), ms in found.items():
        begun = {"ms": {}, "reference_ms": round(reference_ms, 3), "is_shuffled": True}
        row = timed.setdefault(name, begun)
        row["ms"]["whole" if budget is None else budget_name(budget)] = round(ms, 3)
    wanted = {*options.rows, *options.kinds}
    results = {**read_results(NAME), **{name: timed[name] for name in timed if name in wanted}}
    asked = {"observations": options.observations, "repeats": options.repeats}
    settings = {**asked, "threads": torch.get_num_threads()}
    write_result(NAME, seed=0, settings=settings, results=results)


def ours(options: Options, data: Path) -> Iterator[tuple[tuple[str, Budget], Query]]:
    """Row and budget to how its policy is asked."""
    trained = replace(control.Options(), out=options.policies)
    brief = replace(trained, out=options.out / "rows", **control.BRIEF)
    for name in dict.fromkeys((REFERENCE, *options.rows)):
        folders = (control.policy_folder(trained, name, seed) for seed in trained.seeds)
        folder = next((f for f in folders if (f / "config.json").exists()), None)
        policy = load_policy(folder or control.trained(brief, data, name, seed=0))
        policy = policy.choose_decoder(None, control.ROWS[name].decoding)
        budgets: tuple[Budget, ...] = policy.budgets
        if folder is not None and control.has_auto(policy):
            budgets = (*budgets, "auto")
        if folder is not None or policy.head == "flow" or policy.tokenizer.is_fixed_length:
            for budget in budgets:
                yield (name, budget), partial(milliseconds, policy, budget)


def theirs(options: Options, dataset: oatkit.Dataset) -> Iterator[tuple[str, Any]]:
    """Kind of a policy of LeRobot to what opens it, in the setting that won its trials."""
    if not options.python.exists():
        return
    trials = read_results(neighbors.NAME).get("trials", {})
    arrays = neighbors.write_arrays(dataset, options.out / "demonstrations.npz")
    for kind in (kind for kind in options.kinds if kind in trials):
        name = neighbors.best_setting(trials[kind])
        setting, folder = (
            neighbors.SETTINGS[kind][name],
            options.out / folder_name(f"{kind}-{name}"),
        )
        neighbors.train(setting, 0, MINUTES, arrays, folder, options.python)
        yield kind, neighbors.served(folder, setting, dataset, options.python)


def milliseconds(policy: ActingPolicy, budget: Budget, observation: Observation) -> float:
    """Time of one answer, with the likeliest tokens; a policy that reads several frames gets the
    same frame as often."""
    state_BHS = np.tile(observation[STATE], (1, policy.spec.history, 1))
    read = policy.read({STATE: state_BHS, TASK: [observation[TASK]]}, allow_more=True)
    found = policy.predict_action_chunk(read, budget=budget, sampling=Sampling(temperature=0.0))
    return found.elapsed_ms


def observations(dataset: oatkit.Dataset, count: int) -> list[Observation]:
    """Frames of held-out episodes, evenly spread."""
    _, held_out = dataset.split(neighbors.HELD_OUT, seed=0)
    frames = [(episode, step) for episode in held_out for step in range(len(episode))]
    chosen = np.linspace(0, len(frames) - 1, count).astype(int)
    return [
        {STATE: frames[place][0].state[frames[place][1]], TASK: frames[place][0].task}
        for place in chosen
    ]


def time_in_turns(
    queries: Mapping[tuple[str, Budget], Query], asked: Sequence[Observation], repeats: int
) -> dict[tuple[str, Budget], float]:
    """Milliseconds of each query: the median of an observation's, the mean over observations.

    The order is another in every round, the same in every run. A policy answers once, untimed,
    right before the answer that counts: its weights are in the caches then, whoever was asked
    before, as they are on a robot that asks one policy again and again.
    """
    rng = np.random.default_rng(ORDER)
    names = list(queries)
    times: dict[tuple[str, Budget], list[float]] = {name: [] for name in names}
    for observation in asked:
        each: dict[tuple[str, Budget], list[float]] = {name: [] for name in names}
        for _ in range(repeats):
            for place in rng.permutation(len(names)):
                name = names[place]
                queries[name](observation)
                each[name].append(queries[name](observation))
        for name, found in each.items():
            times[name].append(median(found))
    return {name: fmean(found) for name, found in times.items()}


if __name__ == "__main__":
    main(tyro.cli(Options))
