"""Success in closed loop by how chunks are executed: rules, budgets, late chunks, kinds of tokens.

    python -m benchmarks.control                             # hours on two cores; resumes
    python -m benchmarks.control --rows oat light-flow --seeds 0 --rules half 8 auto
    python -m benchmarks.control --tiny                      # minutes; the numbers mean nothing

Four tasks of MetaWorld from the state, 50 demonstrations each, goals that no demonstration has,
the likeliest tokens (a flow head starts from zero noise). All policies have the same preset and the
same demonstrations; a row's tokenizer is trained once, its policy once for every seed. Every row,
seed and rule is a cell of the result file, written when it is finished; runs with other options add
their cells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro

import oatkit
from benchmarks.closed_loop import policy_recipe, solved
from benchmarks.past_actions import REMEMBERING, with_past_actions
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.timing import trained_seconds
from benchmarks.tokenizer_rate_distortion import OUT, metaworld
from oatkit.envs.metaworld import METAWORLD
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.row_runs import folder_name
from oatkit.jobs.untrained_policy import policy_config
from oatkit.policies import load_policy
from oatkit.types import Budget, Decoding, Execution, Sampling
from oatkit.types.observation_keys import ENVIRONMENT_STATE

NAME = "control"
GOALS = 1
"""Seed of the goals: others than those on which the rules were tried out."""
TEMPERATURE = 0.0
LIGHT: dict[str, Any] = {"num_tokens": 8, "levels": (8, 5, 5, 5)}
NO_OFFSET: dict[str, Any] = {"offset_layers": 0}
COMMITTING = ("oat", "oat-pow2", "klt")
"""Kinds of tokens that go on from committed actions."""


@dataclass(frozen=True)
class Row:
    """A policy of the comparison.

    Attributes:
        kind: Kind of its tokenizer; of a flow head, which reads horizon and units of it.
        policy: Name of the policy.
        options: Settings of the tokenizer.
        changes: Settings of the policy that differ from the preset's.
        steps: Training steps of the policy where they differ from the others'.
        tokenizer_steps: Training steps of the tokenizer where they differ from the others'.
        history: Number of frames that it sees where that differs from the preset's.
        past_actions: Whether its state ends with the last executed actions.
        own_past: Share of the frames in training whose past actions are those that a policy with
            true ones planned.
        weights_of: The row with the same policy, where this one only acts in another way.
        decoding: What `fast` does with sequences that are no chunk; as trained by default.
    """

    kind: str
    policy: str = "light"
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None
    tokenizer_steps: int | None = None
    history: int | None = None
    past_actions: bool = False
    own_past: float = 0.0
    weights_of: str | None = None
    decoding: Decoding | None = None

    def can_follow(self, rule: Execution) -> bool:
        """Whether the policy can act by a rule: only some can be told committed actions."""
        return not rule.commit or (self.policy == "light" and self.kind in COMMITTING)


QUEST: dict[str, Any] = {"levels": LIGHT["levels"]}
SHORT = 2500
"""Steps of rows that are trained for a quarter of the preset's."""
PAST = "oat, past actions, 2500 steps"
"""The row whose policies plan the past actions of others."""
ROWS = {
    "oat": Row("oat", options=LIGHT),
    "oat-pow2": Row("oat-pow2", options=LIGHT),
    "quest": Row("quest", options=QUEST),
    "acodec": Row("acodec", options={"num_tokens": LIGHT["num_tokens"]}),
    "klt": Row("klt", options=LIGHT),
    "light-flow": Row("oat", "light-flow", LIGHT, steps=SHORT),
    "oat, 2500 steps": Row("oat", options=LIGHT, steps=SHORT),
    "oat-pow2, 2500 steps": Row("oat-pow2", options=LIGHT, steps=SHORT),
    "klt, 2500 steps": Row("klt", options=LIGHT, steps=SHORT),
    "klt, vector cells, 2500 steps": Row("klt", options={**LIGHT, "cells": "vector"}, steps=SHORT),
    "klt, 1 path, 2500 steps": Row("klt", options={**LIGHT, "paths": 1}, steps=SHORT),
    "fast, 2500 steps": Row("fast", steps=SHORT),
    "fast, relaxed, 2500 steps": Row(
        "fast", steps=SHORT, weights_of="fast, 2500 steps", decoding="relaxed"
    ),
    "bin, 1000 steps": Row("bin", steps=1000),
    "oat, levels 4 4 4": Row("oat", options={**LIGHT, "levels": (4, 4, 4)}),
    "oat, levels 4 4 4, 2500 steps": Row(
        "oat", options={**LIGHT, "levels": (4, 4, 4)}, steps=SHORT
    ),
    "oat, overlap weight 0.1": Row("oat", options={**LIGHT, "overlap_weight": 0.1}),
    "oat, overlap weight 0.1, 2500 steps": Row(
        "oat", options={**LIGHT, "overlap_weight": 0.1}, steps=SHORT
    ),
    PAST: Row("oat", options=LIGHT, steps=SHORT, history=1, past_actions=True),
    "oat, past actions, half its own, 2500 steps": Row(
        "oat", options=LIGHT, steps=SHORT, history=1, past_actions=True, own_past=0.5
    ),
    "oat, no offset": Row("oat", options=LIGHT, changes=NO_OFFSET, steps=SHORT),
    "klt, no offset": Row("klt", options=LIGHT, changes=NO_OFFSET, steps=SHORT),
    "oat, no offset, two frames": Row(
        "oat", options=LIGHT, changes=NO_OFFSET, steps=SHORT, history=2
    ),
    "oat, no offset, early weight 8": Row(
        "oat", options={**LIGHT, "early_weight": 8.0}, changes=NO_OFFSET, steps=SHORT
    ),
    "oat, as first": Row(
        "oat",
        options=LIGHT,
        changes={"code_smoothing": 0.0, **NO_OFFSET},
        steps=SHORT,
        tokenizer_steps=2000,
        history=2,
    ),
    "quest, no offset, 2000 tokenizer steps": Row(
        "quest", options=QUEST, changes=NO_OFFSET, steps=SHORT, tokenizer_steps=2000
    ),
    "quest, as first": Row(
        "quest",
        options=QUEST,
        changes={"code_smoothing": 0.0, **NO_OFFSET},
        steps=SHORT,
        tokenizer_steps=2000,
        history=2,
    ),
}
"""Policies by name. A step of the flow head takes several times as long as one on tokens, so its
row has a quarter of their steps, which took no fewer minutes; one on the 128 tokens of `bin` more
than ten times as long, so its row has a tenth."""

RULES = {
    "half": Execution(),
    "8": Execution(8),
    "4": Execution(4),
    "auto": Execution("auto"),
    "4, blended": Execution(4, blend=0.1),
    "8, 8 draws": Execution(8, draws=8),
    **{f"8, {delay} late": Execution(8, delay=delay) for delay in (1, 2, 4)},
    **{f"8, {delay} late, 8 draws": Execution(8, delay=delay, draws=8) for delay in (2, 4)},
    **{f"8, {delay} late, committed": Execution(8, delay=delay, commit=True) for delay in (2, 4)},
}
"""Ways to execute chunks; "half" is the paper's protocol."""
EVERY_BUDGET = ("half", "8", "auto")
"""Rules whose results by budget the page shows."""


@dataclass(frozen=True)
class Options:
    """Options of the comparison."""

    rows: tuple[str, ...] = tuple(ROWS)
    """Policies to run."""
    rules: tuple[str, ...] = tuple(RULES)
    """Rules to execute by."""
    every_budget: tuple[str, ...] = EVERY_BUDGET
    """Rules under which every budget acts; under the others all tokens do."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the weights and the samples of a policy's training."""
    steps: int = 10_000
    """Training steps of a policy, where its row has none of its own."""
    tokenizer_steps: int = 8000
    """Training steps of a learned tokenizer."""
    own_steps: bool = True
    """Whether rows that have training steps of their own keep them."""
    episodes: int = 50
    """Episodes of each task, budget and rule."""
    data: Path | None = None
    """Demonstrations; they are made by default."""
    out: Path = OUT / NAME
    """Where artifacts and episodes are kept."""
    tiny: bool = False
    """Whether only to show that everything runs."""


BRIEF: dict[str, Any] = {"steps": 4, "tokenizer_steps": 4, "own_steps": False}
TINY: dict[str, Any] = {**BRIEF, "episodes": 1, "seeds": (0,)}


def main(options: Options) -> None:
    keep_apart(options.tiny)
    if options.tiny:
        options = replace(options, out=options.out / "tiny", **TINY)
        wanted = Demonstrations(("drawer-open",), episodes=4)
        data = make_metaworld(options.out / "demonstrations", wanted)
    else:
        data = options.data or metaworld()
    for name, seed, rule in cells(options):
        print(f"{name}, seed {seed}, rule {rule}", flush=True)
        add(f"{name}/{seed}/{rule}", measure(options, data, name, seed, rule))


def cells(options: Options) -> Iterator[tuple[str, int, str]]:
    """Seed by seed, so that all rows have one before any has two."""
    for seed in options.seeds:
        for name in options.rows:
            for rule in options.rules:
                if ROWS[name].can_follow(RULES[rule]):
                    yield name, seed, rule


def measure(options: Options, data: Path, name: str, seed: int, rule: str) -> dict[str, Any]:
    """The numbers of a cell; what was trained or run before is taken as it is."""
    row = ROWS[name]
    folder = trained(options, data, name, seed)
    policy = load_policy(folder)
    execution = RULES[rule]
    episodes_of = f"{folder.name}-{row.decoding}" if row.decoding else folder.name
    budgets: tuple[Budget, ...] = policy.budgets[-1:]
    if rule in options.every_budget:
        budgets = (*policy.budgets, "auto") if has_auto(policy) else policy.budgets
    record = oatkit.evaluate(
        policy,
        REMEMBERING if row.past_actions else METAWORLD,
        episodes=options.episodes,
        budgets=budgets,
        execute=execution.steps,
        blend=execution.blend,
        delay=execution.delay,
        draws=execution.draws,
        commit=execution.commit,
        decoding=row.decoding,
        sampling=Sampling(temperature=TEMPERATURE, seed=GOALS),
        out=options.out / "episodes" / episodes_of / rule.replace(", ", "-").replace(" ", ""),
        show_progress=True,
    )
    return {
        "row": name,
        "seed": seed,
        "rule": rule,
        "execution": asdict(execution),
        "kind": record.kind,
        "parameters": sum(p.numel() for p in policy.net.parameters()),
        "steps": policy.extras["train"]["steps"],
        "batch_size": policy.extras["train"]["batch_size"],
        **policy_recipe(policy),
        "levels": list(getattr(policy.tokenizer.codec.config, "levels", ())),
        "tokenizer_steps": policy.tokenizer.extras.get("train", {}).get("steps"),
        "early_weight": getattr(policy.tokenizer.codec.config, "early_weight", 1.0),
        "overlap_weight": getattr(policy.tokenizer.codec.config, "overlap_weight", 0.0),
        "seconds": trained_seconds(folder, policy),
        "tokenizer_seconds": trained_seconds(tokenizer_folder(options, row), policy.tokenizer),
        "decoding": row.decoding or getattr(policy.tokenizer.codec.config, "decoding", None),
        "temperature": TEMPERATURE,
        "episodes": options.episodes,
        "budgets": [
            {
                **asdict(budget),
                "solved": solved([e for e in record.episodes if e.budget == budget.budget]),
            }
            for budget in record.budgets
        ],
    }


def has_auto(policy: oatkit.Policy) -> bool:
    """Whether the policy can decide how many tokens it generates."""
    return policy.head == "tokens" and policy.auto is not None


def trained(options: Options, data: Path, name: str, seed: int) -> Path:
    """Folder of the policy, which is trained unless it is there."""
    row, steps = ROWS[name], policy_steps(options, ROWS[name])
    out = policy_folder(options, name, seed)
    preset = "tiny" if options.tiny else "small"
    if not (out / "config.json").exists():
        oatkit.train_policy(
            oatkit.open_dataset(
                demonstrations(options, data, row, seed), state_key=(ENVIRONMENT_STATE,)
            ),
            tokenizer(options, data, row, preset),
            replace(policy_config(row.policy, preset), **row.changes),
            out,
            preset=preset,
            history=row.history,
            train={"steps": steps, "seed": seed},
            show_progress=True,
        )
    return out


def demonstrations(options: Options, data: Path, row: Row, seed: int) -> Path:
    """What a row's policy is trained on."""
    if not row.past_actions:
        return data
    out = options.out / "past-actions" / "true"
    if not row.own_past:
        return with_past_actions(data, out)
    planner = load_policy(trained(options, data, PAST, seed))
    return with_past_actions(data, out.with_name(f"own-{seed}"), planner, row.own_past)


def policy_folder(options: Options, name: str, seed: int) -> Path:
    """Where the policy of a row is kept."""
    trainer = ROWS[name].weights_of or name
    return options.out / "policies" / f"{trainer}-{policy_steps(options, ROWS[name])}-{seed}"


def tokenizer(options: Options, data: Path, row: Row, preset: str) -> Path:
    """Folder of the tokenizer, which is trained or fitted unless it is there."""
    out = tokenizer_folder(options, row)
    if not (out / "config.json").exists():
        oatkit.train_tokenizer(
            oatkit.open_dataset(data),
            row.kind,
            out,
            preset=preset,
            train={"steps": tokenizer_steps(options, row), "seed": 0},
            show_progress=True,
            **row.options,
        )
    return out


def tokenizer_folder(options: Options, row: Row) -> Path:
    """Where the tokenizer is kept that rows with the same settings share."""
    own = {name: value for name, value in row.options.items() if LIGHT.get(name) != value}
    words = [f"{name}{folder_name(str(value))}" for name, value in own.items()]
    name = "-".join([row.kind, str(tokenizer_steps(options, row)), *words])
    return options.out / "tokenizers" / name


def policy_steps(options: Options, row: Row) -> int:
    """Training steps of a row's policy."""
    return (options.own_steps and row.steps) or options.steps


def tokenizer_steps(options: Options, row: Row) -> int:
    """Training steps of a row's tokenizer."""
    return (options.own_steps and row.tokenizer_steps) or options.tokenizer_steps


def add(key: str, cell: dict[str, Any]) -> None:
    """Add the cell to the result file; the others stay, each with its own settings."""
    before = read_results(NAME).get("cells", {})  # another process may have added to them
    merged = {"cells": {**before, key: cell}}
    write_result(NAME, seed=0, settings={"horizon": 32, "light": LIGHT}, results=merged)


if __name__ == "__main__":
    main(tyro.cli(Options, args=sys.argv[1:]))
