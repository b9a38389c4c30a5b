"""The paper's claims on light policies: their success, token ordering, horizons and codebooks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from benchmarks.claim_findings import Claim, cannot, is_larger
from benchmarks.light_findings import (
    nearer_than_all,
    on_robosuite,
    swept,
    swept_trend,
    than_oat,
    than_shortest,
)
from benchmarks.row_commands import light
from oatkit.jobs.tokenizer_ablations import HORIZONS, NUM_TOKENS


def _swept(table: str, says: str, paper: str, worse: str, better: str) -> Claim:
    """A claim that one row of an ablation succeeds more often than another."""
    needs = light("policy_sweep", better, worse, table=table)
    return Claim(table, says, paper, swept(table, worse, better, is_larger), needs, (worse, better))


def _trend(
    table: str, says: str, paper: str, pairs: Sequence[tuple[str, str]], rows: tuple[str, ...]
) -> Claim:
    """A claim that the second of all pairs of cells succeeds more often.

    Args:
        table: Table of the ablation.
        says: What the paper claims.
        paper: Numbers of the paper, in words.
        pairs: Pairs of cells, of which those that are stored decide.
        rows: Cells that are enough.
    """
    needs = light("policy_sweep", *rows, table=table)
    return Claim(table, says, paper, swept_trend(table, pairs), needs, rows)


def _cells(horizons: Sequence[int], tokens: Sequence[int]) -> tuple[str, ...]:
    """Names of the cells of an ablation of horizons."""
    return tuple(f"{horizon} actions, {count} tokens" for horizon in horizons for count in tokens)


LONGER = [
    (longer, shorter)
    for count in NUM_TOKENS
    for shorter, longer in combinations(_cells(HORIZONS, (count,)), 2)
]
"""Pairs of cells with as many tokens, the longer chunk first."""
MORE = [pair for horizon in HORIZONS for pair in combinations(_cells((horizon,), NUM_TOKENS), 2)]
"""Pairs of cells with chunks as long, the one with fewer tokens first."""

LIGHT_CLAIMS = (
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 1",
        "24.4 against 11.3 % on MetaWorld",
        than_oat("oat", is_larger, budget=1),
        light("policy_table", "oat"),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 2",
        "24.4 against 16.4 % on MetaWorld",
        than_oat("oat", is_larger, budget=2),
        light("policy_table", "oat"),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 4",
        "24.4 against 19.5 % on MetaWorld",
        than_oat("oat", is_larger, budget=4),
        light("policy_table", "oat"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `quest`",
        "24.4 against 17.9 % on MetaWorld",
        than_oat("quest", is_larger),
        light("policy_table", "oat", "quest"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `bin`",
        "24.4 against 14.5 % on MetaWorld",
        than_oat("bin", is_larger),
        light("policy_table", "oat", "bin"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `fast`, strict",
        "24.4 against 7.1 % on MetaWorld",
        than_oat("fast", is_larger),
        light("policy_table", "oat", "fast"),
    ),
    *(
        Claim(
            "light-policies",
            f"RoboMimic: 8 tokens of `oat` succeed more often than {budget}",
            f"73.1 against {rate} %",
            on_robosuite("oat", is_larger, budget=budget),
            light("policy_robosuite", "oat"),
        )
        for budget, rate in ((1, 50.8), (2, 52.5), (4, 65.3))
    ),
    *(
        Claim(
            "light-policies",
            f"RoboMimic: `oat` at 8 tokens succeeds more often than `{kind}`",
            f"73.1 against {rate} %",
            on_robosuite(kind, is_larger),
            light("policy_robosuite", "oat", kind),
        )
        for kind, rate in (("quest", 66.9), ("bin", 39.5), ("fast", 24.0))
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens is best on LIBERO-Long and RoboCasa",
        "56.3 and 54.6 %",
        cannot("their human demonstrations are not here, nor is RoboCasa"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens is best on two tasks of a real arm",
        "16 of 20 each",
        cannot("there is no robot: the real half of the table is absent"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens has the best average rank over four benchmarks and two real tasks",
        "1.0, the next 2.5 (`oat` at 4) and 2.8 (`quest`)",
        cannot("two of the benchmarks and the robot are not here"),
    ),
    Claim(
        "ordering",
        "`oat` at 8 tokens succeeds more often than without nested dropout",
        "24.4 against 17.6 % on MetaWorld",
        than_oat("oat, no nesting", is_larger),
        light("policy_table", "oat", "oat, no nesting"),
    ),
    Claim(
        "ordering",
        "RoboMimic: `oat` at 8 tokens succeeds more often than without nested dropout",
        "73.1 against 61.1 %",
        on_robosuite("oat, no nesting", is_larger),
        light("policy_robosuite", "oat", "oat, no nesting"),
    ),
    Claim(
        "ordering",
        "Without nested dropout `oat` succeeds less often on LIBERO-Long and RoboCasa too",
        "35.2 against 56.3 % and 48.5 against 54.6 %",
        cannot("their human demonstrations are not here, nor is RoboCasa"),
    ),
    Claim(
        "ordering",
        "Without nested dropout `oat` is often stronger than at the shortest budgets",
        "17.6 against 11.3 % at 1 token on MetaWorld",
        than_shortest("oat, no nesting", is_larger),
        light("policy_table", "oat", "oat, no nesting"),
    ),
    Claim(
        "ordering",
        "Without nested dropout `oat` is often closer to its 2 or 4 tokens than to 8",
        "17.6 %, and 16.4 at 2, 19.5 at 4, 24.4 at 8 on MetaWorld",
        nearer_than_all("oat, no nesting", (2, 4)),
        light("policy_table", "oat", "oat, no nesting"),
    ),
    _trend(
        "horizons-half",
        "With as many tokens, longer chunks succeed less often",
        "63.0 / 57.1 / 56.3 / 19.4 % at 8 / 16 / 32 / 64 actions, 8 tokens",
        LONGER,
        _cells((32, 64, 8), (8,)),
    ),
    _trend(
        "horizons-half",
        "With chunks as long, more tokens succeed more often",
        "6.4 / 26.6 / 37.7 / 56.3 % with 1 / 2 / 4 / 8 tokens, 32 actions",
        MORE,
        _cells((32,), (8, 1)),
    ),
    _trend(
        "horizons-fixed",
        "Executing 8 actions, chunks of 64 succeed less often than shorter ones",
        "27.3 against 54.5 / 57.1 / 62.5 % at 8 / 16 / 32 actions, 8 tokens",
        [pair for pair in LONGER if pair[0].startswith("64")],
        _cells((32, 64, 8), (8,)),
    ),
    _trend(
        "horizons-fixed",
        "Executing 8 actions, chunks of 16 and 32 succeed more often than shorter ones, 8 tokens",
        "54.5 / 57.1 / 62.5 % at 8 / 16 / 32 actions",
        list(combinations(_cells((8, 16, 32), (8,)), 2)),
        _cells((32, 8), (8,)),
    ),
    _trend(
        "horizons-fixed",
        "Executing 8 actions, chunks of 64 succeed least often with 1 and 2 tokens",
        "0.8 and 17.5 %, 18.3 and 27.3 % with 4 and 8",
        list(product(_cells((64,), (1, 2)), _cells((64,), (4, 8)))),
        _cells((64,), (8, 1, 2)),
    ),
    *(
        _swept("codebook", f"{own} codes succeed more often than {other}", rates, worse, better)
        for own, other, rates, worse, better in (
            (512, 240, "53.5 against 29.2 %", "levels 8 6 5", "levels 8 8 8"),
            (1000, 240, "56.3 against 29.2 %", "levels 8 6 5", "levels 8 5 5 5"),
            (1920, 240, "54.6 against 29.2 %", "levels 8 6 5", "levels 8 8 6 5"),
            (1000, 512, "56.3 against 53.5 %", "levels 8 8 8", "levels 8 5 5 5"),
            (1000, 4375, "56.3 against 46.9 %", "levels 7 5 5 5 5", "levels 8 5 5 5"),
            (1920, 4375, "54.6 against 46.9 %", "levels 7 5 5 5 5", "levels 8 8 6 5"),
        )
    ),
)
