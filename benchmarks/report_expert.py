"""The section of the results page on how a flow expert is trained beside tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.markdown import paragraph, said, section, table
from benchmarks.report_control import success_of_seeds

WAYS = ("flow, deterministic", "flow, sampled", "tokens, deterministic", "tokens, sampled")
STEPS = {
    "1 step": "flow, deterministic, 1 steps",
    **{f"{n} steps": f"flow, deterministic, {n} steps" for n in (2, 5)},
    "10 steps": WAYS[0],
}
BUDGETS = {
    "1 token": "tokens, deterministic, budget 1",
    **{f"{n} tokens": f"tokens, deterministic, budget {n}" for n in (2, 4)},
    "all": WAYS[2],
    "auto": "tokens, deterministic, budget auto",
}


def vlm_expert(record: dict[str, Any]) -> str:
    rows = list(record["results"]["rows"].values())
    first = rows[0]
    seeds = {(r["recipe"], r["kind"], r["family"]): 0 for r in rows}
    for row in rows:
        seeds[row["recipe"], row["kind"], row["family"]] += 1
    return section(
        "How a flow expert is trained beside tokens",
        paragraph(
            "Tasks, demonstrations, backbones and tokenizers are those of the section before. "
            f"Every recipe has {int(1.5 * first['steps'])} steps of batch {first['batch_size']}: "
            f"`co-trained, then expert` trains tokens and expert together for {first['steps']} "
            "steps, then the expert alone on the frozen backbone with four flow draws of each "
            "chunk.",
            f"Success is in percent over all seeds, {first['episodes']} episodes a task for each, "
            "with Wilson's 95 % interval and, where there are several, the percentages of seeds.",
            "Deterministic is temperature 0: the likeliest tokens, or the flow from zero noise; "
            "sampled is temperature 1. All act on the same goals.",
            *(f"`fast` has {word} decoding." for word in [_decoding(rows)] if word),
        ),
        table(
            ("recipe", "tokenizer", "backbone", "seeds", *WAYS),
            [
                (recipe, kind and f"`{kind}`", f"`{family}`", str(count), *cells)
                for (recipe, kind, family), count in seeds.items()
                for cells in [_cells(rows, (recipe, kind, family), WAYS)]
            ],
        ),
        *_fewer(rows, "The same experts from zero noise with fewer Euler steps than ten.", STEPS),
        *_fewer(rows, "The same token heads with fewer tokens, the likeliest ones.", BUDGETS),
        script="vlm_expert",
    )


def _decoding(rows: Sequence[dict[str, Any]]) -> str:
    """How sequences of `fast` are decoded, in words; empty where there is no such row."""
    return said((row for row in rows if row["kind"] == "fast"), "decoding")


def _cells(
    rows: Sequence[dict[str, Any]], key: tuple[str, str, str], ways: Sequence[str]
) -> list[str]:
    own = [row for row in rows if (row["recipe"], row["kind"], row["family"]) == key]
    found = {
        way: [{"success": row["success"][way]["all"]} for row in own if way in row["success"]]
        for way in ways
    }
    return [success_of_seeds(found[way]) if found[way] else "" for way in ways]


def _fewer(rows: Sequence[dict[str, Any]], said: str, ways: dict[str, str]) -> list[str]:
    """A table of those policies that also acted with less than all."""
    keys = {
        (row["recipe"], row["kind"], row["family"]): None
        for row in rows
        if next(iter(ways.values())) in row["success"]
    }
    if not keys:
        return []
    return [
        paragraph(said),
        table(
            ("recipe", "tokenizer", "backbone", *ways),
            [
                (
                    *(key[0], key[1] and f"`{key[1]}`", f"`{key[2]}`"),
                    *_cells(rows, key, list(ways.values())),
                )
                for key in keys
            ],
        ),
    ]
