"""How to train a flow expert beside tokens: co-training, stages and pure flow, three seeds each.

    python -m benchmarks.vlm_expert                        # hours on one core; resumes
    python -m benchmarks.vlm_expert --kinds oat --families paligemma2 --seeds 0 1 2
    python -m benchmarks.vlm_expert --tiny                 # minutes; the numbers mean nothing

Tasks, demonstrations, backbones and tokenizers are those of `benchmarks.vlm_pipeline`. A recipe is
a list of stages; every policy acts by each of its heads, sampled (temperature 1) and deterministic
(temperature 0: the likeliest tokens, or the flow from zero noise), on the same goals, and where
that is asked for with fewer Euler steps or tokens. Every policy is one row of the result file,
written when it is finished; runs with other options add their rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

import oatkit
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.vlm_pipeline import closed_loop, success_numbers
from benchmarks.vlm_training import (
    DECODING,
    EXPERT_WIDTH,
    FAMILIES,
    TINY,
    TOKENIZER_BATCH,
    Options,
    decoded,
    make_backbone,
    make_demonstrations,
    make_tokenizer,
    open_policy,
    tokenizer_steps,
)
from oatkit.data import Dataset, open_dataset
from oatkit.envs.metaworld import CAMERA
from oatkit.jobs.row_runs import is_trained
from oatkit.jobs.untrained_policy import policy_config
from oatkit.policies import Policy
from oatkit.types import Budget, Head
from oatkit.types.observation_keys import IMAGES, STATE

NAME = "vlm_expert"
KINDS = ("oat", "quest", "acodec", "fast", "bin")
TEMPERATURES = {"deterministic": 0.0, "sampled": 1.0}


@dataclass(frozen=True)
class Stage:
    """A part of a training.

    Attributes:
        objective: Objective of the policy in this stage.
        share: Number of steps, as a share of those of the options.
        flow_draws: Number of flow draws of a context.
        expert_only: Whether only the expert is trained.
    """

    objective: str
    share: float = 1.0
    flow_draws: int = 1
    expert_only: bool = False


RECIPES = {
    "flow": (Stage("vlm-flow", 1.5),),
    "flow, 4 draws": (Stage("vlm-flow", 1.5, flow_draws=4),),
    "tokens, then flow": (Stage("vlm-ar"), Stage("vlm-flow", 0.5, flow_draws=4)),
    "co-trained": (Stage("vlm-tc", 1.5),),
    "co-trained, 4 draws": (Stage("vlm-tc", 1.5, flow_draws=4),),
    "co-trained, then expert": (
        Stage("vlm-tc"),
        Stage("vlm-tc", 0.5, flow_draws=4, expert_only=True),
    ),
}
"""Recipes by name, all with the same number of steps; recipes that begin alike share that stage."""


@dataclass(frozen=True)
class ExpertOptions:
    """Options of the comparison."""

    recipes: tuple[str, ...] = ("flow, 4 draws", "co-trained, then expert")
    """Recipes to run."""
    kinds: tuple[str, ...] = KINDS
    """Tokenizers to co-train with; pure flow has none."""
    families: tuple[str, ...] = FAMILIES
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the weights and the samples of a training."""
    euler_steps: tuple[int, ...] = ()
    """Further numbers of Euler steps that a flow expert acts with."""
    token_budgets: tuple[int | Literal["auto"], ...] = ()
    """Further budgets that a token head acts with."""
    pipeline: Options = field(default_factory=lambda: Options(episodes=15))
    tiny: bool = False
    """Whether only to show that everything runs."""


@dataclass(frozen=True)
class Row:
    """A policy of the comparison."""

    recipe: str
    kind: str
    family: str
    seed: int

    @property
    def name(self) -> str:
        return "/".join(
            (self.recipe, *([self.kind] if self.kind else []), self.family, str(self.seed))
        )


def main(options: ExpertOptions) -> None:
    keep_apart(options.tiny)
    if options.tiny:
        tiny = replace(options.pipeline, out=options.pipeline.out / "tiny", tiny=True, **TINY)
        options = replace(options, pipeline=tiny)
    dataset = open_dataset(unpacked(make_demonstrations(options.pipeline)))
    for row in rows(options):
        name = f"{row.name}{decoded(row.kind)}".replace("/", "_")
        path = options.pipeline.out / "expert" / f"{name}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        policy = trained(options.pipeline, row, dataset)
        for how, head, temperature, budget in ways_of_acting(policy, options):
            if how in found:
                continue
            policy.head = head
            found[how] = closed_loop(
                options.pipeline, policy, temperature=temperature, budget=budget
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found, indent=1))
        report(options, row, found)


def unpacked(demonstrations: Path) -> Path:
    """A copy whose images are plain arrays; decoding video takes as long as a training step."""
    folder = demonstrations.with_name("unpacked")
    if not folder.exists():
        dataset = open_dataset(demonstrations)
        aside = folder.with_suffix(".partial")
        aside.mkdir(exist_ok=True)
        for number, episode in enumerate(dataset):
            arrays: dict[str, Any] = {
                "action": episode.actions,
                STATE: episode.column(STATE),
                f"{IMAGES}{CAMERA}": episode.images(CAMERA),
            }
            np.savez(
                aside / f"{number:04d}.npz",
                task=np.array(episode.task),
                fps=np.array(dataset.fps),
                **arrays,
            )
        aside.rename(folder)
    return folder


def rows(options: ExpertOptions) -> Iterator[Row]:
    """Seed by seed, so that all rows have one before any has two."""
    for seed in options.seeds:
        for recipe in options.recipes:
            is_token = any("tokens" in heads_of(stage) for stage in RECIPES[recipe])
            for family in options.families:
                for kind in options.kinds if is_token else ("",):
                    yield Row(recipe, kind, family, seed)


def heads_of(stage: Stage) -> tuple[str, ...]:
    return tuple(policy_config(stage.objective).heads)


def ways_of_acting(
    policy: Policy, options: ExpertOptions
) -> Iterator[tuple[str, Head, float, Budget]]:
    """Name, head, temperature and budget of every way that a policy acts."""
    for head in policy.heads:
        for word, temperature in TEMPERATURES.items():
            yield f"{head}, {word}", head, temperature, None
    for steps in options.euler_steps if "flow" in policy.heads else ():
        yield f"flow, deterministic, {steps} steps", "flow", 0.0, steps
    for budget in options.token_budgets if "tokens" in policy.heads else ():
        yield f"tokens, deterministic, budget {budget}", "tokens", 0.0, budget


def trained(options: Options, row: Row, dataset: Dataset) -> Policy:
    """The policy of a row, stage after stage; each stage is an artifact that others go on from."""
    before: Path | None = None
    name = ""
    for stage in RECIPES[row.recipe]:
        name += f"{stage.objective} x{stage.share:g} draws {stage.flow_draws}"
        name += " expert" * stage.expert_only
        what = f"{name}_{row.kind or 'none'}_{row.family}_{row.seed}"
        out = options.out / "expert_policies" / what.replace(" ", "-")
        steps = stage_steps(options, stage), tokenizer_steps(options, row.kind or "oat")
        if not is_trained(out, *steps):
            train_stage(options, row, stage, before, out, dataset)
        before = out
        name += ", "
    assert before is not None
    return open_policy(before)


def stage_steps(options: Options, stage: Stage) -> int:
    """Training steps of a stage."""
    return max(2, int(options.steps * stage.share))


def train_stage(
    options: Options, row: Row, stage: Stage, before: Path | None, out: Path, dataset: Dataset
) -> None:
    preset = "tiny" if options.tiny else "small"
    steps = stage_steps(options, stage)
    recipe = {"steps": steps, "batch_size": options.batch_size, "workers": 0, "seed": row.seed}
    changes = {"flow_draws": stage.flow_draws, "expert_only": stage.expert_only}
    expert = replace(policy_config(stage.objective, preset).expert, width=EXPERT_WIDTH)
    common: dict[str, Any] = {
        "preset": preset,
        "train": {**recipe, "checkpoint_every": 500},
        "show_progress": True,
    }
    if before is not None:
        becomes = {"objective": stage.objective, **changes, "expert": {"width": expert.width}}
        oatkit.train_policy(dataset, config=becomes, out=out, init=before, **common)
        return
    oatkit.train_policy(
        dataset,
        make_tokenizer(options, row.kind or "oat"),
        replace(policy_config(stage.objective, preset), expert=expert, **changes),
        out,
        backbone=str(make_backbone(options, row.family, dataset)),
        cameras=(CAMERA,),
        **common,
    )


def row_settings(options: Options) -> dict[str, Any]:
    """What a row shares with the pipeline, and how its policy acts."""
    shared = ("demonstrations", "image_size", "horizon", "tokens", "tokenizer_steps", "max_steps")
    found = {name: getattr(options, name) for name in shared}
    acts = {"decoding": DECODING, "temperatures": TEMPERATURES}
    sizes = {"expert_width": EXPERT_WIDTH, "tokenizer_batch_size": TOKENIZER_BATCH}
    return {**found, **sizes, **acts}


def report(options: ExpertOptions, row: Row, found: dict[str, Any]) -> None:
    """Add the row to the result file; other rows stay, each with its own settings."""
    own = {
        **asdict(row),
        "stages": [asdict(stage) for stage in RECIPES[row.recipe]],
        "steps": options.pipeline.steps,
        "batch_size": options.pipeline.batch_size,
        "episodes": options.pipeline.episodes,
        "settings": row_settings(options.pipeline),
        "success": {how: success_numbers(episodes) for how, episodes in found.items()},
    }
    merged = {"rows": {**read_results(NAME).get("rows", {}), row.name: own}}
    write_result(NAME, seed=options.pipeline.seed, settings={}, results=merged)


if __name__ == "__main__":
    main(tyro.cli(ExpertOptions, args=sys.argv[1:]))
