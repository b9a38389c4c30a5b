"""What the closed-loop benchmarks share: training within minutes, and the numbers of a row."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from oatkit.data import Dataset
from oatkit.evaluation.success_statistics import compare_paired
from oatkit.jobs.policy_evaluation import RECORD
from oatkit.jobs.policy_training import PolicyTraining, prepare_policy
from oatkit.jobs.tokenizer_training import (
    TokenizerTraining,
    prepare_tokenizer,
    train_tokenizer,
)
from oatkit.jobs.untrained_policy import PolicyStart
from oatkit.policies import load_policy
from oatkit.presets import policy_preset
from oatkit.storage.records import read_record
from oatkit.tokenizers.codec import LearnedCodec
from oatkit.train import read_log, training_seconds
from oatkit.types import Budget, EpisodeResult, PolicyEvaluation, budget_name

PLAN = "steps.json"
"""File beside an artifact that keeps the number of training steps, decided once."""


def arguments(summary: str, rows: Sequence[str], default: Sequence[str]) -> ArgumentParser:
    """Options that the closed-loop benchmarks share."""
    parser = ArgumentParser(description=summary)
    parser.add_argument("--only", nargs="*", default=list(default), choices=list(rows))
    parser.add_argument("--preset", default="small", help="size and recipe of the policy")
    parser.add_argument(
        "--steps", type=int, help="training steps of the policy; the preset's by default"
    )
    parser.add_argument("--tokenizer-preset", default="small")
    parser.add_argument("--minutes", type=float, default=15.0, help="maximum time of each training")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--again", action="store_true", help="measure finished rows again")
    return parser


def settings(args: Namespace, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a row, which the result file keeps with it: rows are made by different runs.

    Args:
        args: Options of the run.
        tokenizer: Settings of the row's tokenizer.
    """
    asked = ("preset", "tokenizer_preset", "minutes", "episodes")
    return {name: getattr(args, name) for name in asked} | {"tokenizer": dict(tokenizer)}


def folder_name(row: str) -> str:
    """Name of the folder of a row: `oat-nonesting` for `oat, no nesting`."""
    return row.replace(", ", "-").replace(" ", "")


def ready_tokenizer(
    dataset: Dataset,
    kind: str,
    out: Path,
    minutes: float,
    *,
    preset: str,
    seed: int,
    **settings: Any,
) -> Path:
    """Folder of the tokenizer, which is trained for at most the minutes unless it is there."""
    if (out / "config.json").exists():
        return out
    how = {"preset": preset, "train": {"seed": seed}, **settings}
    training = prepare_tokenizer(dataset, kind, **how)
    how["train"] = {"seed": seed, **planned_steps(training, out, minutes)}
    train_tokenizer(dataset, kind, out, show_progress=True, **how)
    return out


def planned_steps(
    training: TokenizerTraining | PolicyTraining, out: Path, minutes: float
) -> dict[str, int]:
    """Steps that fit into the minutes, at most those of the recipe; empty for fitted kinds."""
    kind = training.tokenizer.codec if isinstance(training, TokenizerTraining) else None
    if kind is not None and not isinstance(kind, LearnedCodec):
        return {}
    plan = out / PLAN
    if not plan.exists():
        write_plan(plan, min(training.config.steps, training.affordable_steps(minutes)))
    return {"steps": json.loads(plan.read_text())}


def ready_policy(
    dataset: Dataset,
    tokenizer: Path,
    out: Path,
    minutes: float,
    *,
    preset: str,
    steps: int | None,
    seed: int,
    endpoints: tuple[int, ...] = (),
    cameras: tuple[str, ...] = (),
) -> Path:
    """Folder of the policy, which is trained for at most the minutes unless it is there."""
    if (out / "config.json").exists():
        return out
    config = replace(policy_preset(preset).net, endpoints=endpoints or None)
    train: dict[str, int] = {"seed": seed} if steps is None else {"seed": seed, "steps": steps}
    start = PolicyStart(cameras=cameras)
    training = prepare_policy(dataset, tokenizer, config, start, preset=preset, train=train)
    train |= planned_steps(training, out, minutes)
    training = prepare_policy(dataset, tokenizer, config, start, preset=preset, train=train)
    training.run(out, show_progress=True)
    return out


def write_plan(path: Path, steps: int) -> None:
    """Keep the number of steps beside the artifact, so that a resumed training takes as many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(steps))


def row_numbers(record: PolicyEvaluation, trained_in: Path) -> dict[str, Any]:
    """Numbers of an evaluation and of the policy's training, for the result file."""
    policy = load_policy(trained_in)
    train, log = policy.extras["train"], read_log(trained_in)
    protocol = ("execute", "horizon", "sampling", "endpoints", "seed")
    return {
        "kind": record.kind,
        "tokens": policy.tokenizer.max_tokens,
        "parameters": sum(p.numel() for p in policy.net.parameters()),
        "steps": train["steps"],
        "batch_size": train["batch_size"],
        "seconds": round(training_seconds(log, train["batch_size"]), 1),
        "tokenizer_steps": policy.tokenizer.extras.get("train", {}).get("steps", 0),
        "protocol": {name: record.settings.get(name) for name in protocol},
        "budgets": [asdict(budget) for budget in record.budgets],
        "against_largest": [asdict(pair) for pair in record.comparisons],
        "failed": sum(e.error is not None for e in record.episodes),
    }


def read_evaluation(folder: Path) -> PolicyEvaluation | None:
    """The record of an evaluation; None where it has not begun."""
    path = folder / RECORD
    if not path.exists():
        return None
    return read_record(path, PolicyEvaluation)


def paired(
    reference: tuple[str, int], records: Mapping[str, PolicyEvaluation]
) -> dict[str, dict[str, Any]]:
    """Every row and budget compared with the reference row and budget, on the same episodes."""
    name, budget = reference
    if name not in records:
        return {}
    own = _at(records[name], budget)
    found: dict[str, dict[str, Any]] = {}
    for row, record in records.items():
        for result in record.budgets:
            if (row, result.budget) != reference:
                label = budget_name(result.budget)
                pair = compare_paired(
                    f"{name} at {budget}", f"{row} at {label}", own, _at(record, result.budget)
                )
                if pair is not None:
                    found.setdefault(row, {})[label] = asdict(pair)
    return found


def _at(record: PolicyEvaluation, budget: Budget) -> list[EpisodeResult]:
    return [episode for episode in record.episodes if episode.budget == budget]
