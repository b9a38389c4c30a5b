"""The section on mixtures of robots."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import paragraph, section, table

WAYS = {
    "mixture": "one for all",
    "mixture, told the robot": "one for all, told the robot",
    "own": "its own",
    "own, as many samples": "its own, a share of the steps",
}


def mixture(record: dict[str, Any]) -> str:
    """A row for each robot and each way to train its tokenizer."""
    results, settings = record["results"], record["settings"]
    budgets = list(next(iter(results.values()))["own"])
    rows = [
        (name, f"{found['action_dim']} at {found['fps']:g} Hz", words, *_percent(found[way]))
        for name, found in results.items()
        for way, words in WAYS.items()
    ]
    steps = settings["steps"]
    return section(
        "One tokenizer for several robots",
        paragraph(
            f"`{settings['kind']}` with {settings['num_tokens']} tokens for {settings['horizon']} "
            f"actions, preset `{settings['preset']}`, {steps} steps: on a mixture in which every "
            "robot has an equal share of the samples, on each robot alone in as many steps, and in "
            f"{steps // len(results)} steps, which is about as many samples of it as the mixture "
            "has.",
            "Numbers are errors of held-out chunks in percent of the variance of the actions, by "
            "budget.",
            "So short a training compares the ways, and does not show how good they can become.",
        ),
        table(("robot", "action dimensions", "tokenizer", *budgets), rows),
        script="mixture",
    )


def _percent(errors: dict[str, float]) -> list[str]:
    return [f"{100 * error:.2f}" for error in errors.values()]
