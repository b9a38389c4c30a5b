"""The paper's claims, each with the function that reads what was measured here about it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from benchmarks.call_findings import calls_of_16_tokens, calls_of_schemes
from benchmarks.claim_findings import Claim, cannot, is_larger, is_nothing
from benchmarks.large_findings import (
    NORMAL,
    best_with_all,
    generated,
    generates,
    is_least,
    rises,
    taught_by,
    together,
)
from benchmarks.light_findings import (
    nearer_than_all,
    on_robosuite,
    swept,
    swept_trend,
    than_oat,
    than_shortest,
)
from benchmarks.tokenizer_findings import (
    compact,
    decodes,
    falls,
    nearly_lossless,
    ordered,
    refines,
    tracks,
)
from benchmarks.vlm_pipeline import POST_HOC
from oatkit.jobs.tokenizer_ablations import HORIZONS, NUM_TOKENS

ONE, GROUPED = "vlm-ar/oat/paligemma2", "vlm-ar/oat-pow2/paligemma2"
FORCED_COSTS = generated((ONE, POST_HOC), (ONE, NORMAL), is_larger)
GROUPED_GAINS = generated((ONE, POST_HOC), (GROUPED, NORMAL), is_larger)


VLM_RATES = (
    (
        *("PaliGemma 2", "paligemma2"),
        "19.8 / 45.5 / 49.7 / 60.2 / 63.7 % on average with 1 / 2 / 4 / 8 / 16 tokens",
    ),
    (
        *("Qwen3-VL", "qwen3-vl"),
        "19.4 / 40.0 / 44.5 / 50.5 / 56.8 % on average with 1 / 2 / 4 / 8 / 16 tokens",
    ),
)
"""Backbones, with what the paper has of `oat` at every budget."""


def _swept(table: str, says: str, paper: str, worse: str, better: str) -> Claim:
    """A claim that one row of an ablation succeeds more often than another."""
    return Claim(table, says, paper, swept(table, worse, better, is_larger), (worse, better))


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

CLAIMS = (
    Claim(
        "prefix-reconstruction",
        "A chunk comes nearer with every budget",
        "a picture of an arm",
        refines,
    ),
    Claim(
        "tokenizer-comparison",
        "All kinds but `bin` are compact",
        "marks in a table; `bin` has a token for every number of a chunk",
        compact,
    ),
    Claim(
        "tokenizer-comparison",
        "All kinds but `fast` decode every sequence",
        "marks in a table",
        decodes,
    ),
    Claim(
        "tokenizer-comparison",
        "`fast`, `oat` and `oat-pow2` are ordered, `bin` and `quest` are not",
        "marks in a table; `acodec` has a dash",
        ordered,
    ),
    Claim(
        "tokenizer-comparison",
        "`oat-pow2` is block-compatible, `oat` is not",
        "marks in a table, as a policy that generates powers of two shows it",
        together(FORCED_COSTS, GROUPED_GAINS),
    ),
    Claim(
        "tokenizer-comparison",
        "`bin` and `acodec` are block-compatible, `fast` and `quest` are not",
        "marks in a table",
        cannot(
            "the paper reads these marks off how the tokens are made and has no experiment for them"
        ),
    ),
    Claim(
        "setup",
        "Calls for a chunk, of every scheme",
        "as many as actions with `bin`, as tokens with `fast` and `quest`, 1 with `acodec`; for k "
        "tokens, k with `oat` and 1 + ceil(log2 k) with `oat-pow2`",
        calls_of_schemes,
    ),
    Claim(
        "rate-distortion",
        "The error of `oat` falls with every budget",
        "731 / 110 / 38.1 / 32.7 / 32.1 x 0.001 on its MetaWorld",
        falls("oat"),
    ),
    Claim(
        "rate-distortion",
        "The error of `oat-pow2` falls with every budget",
        "735 / 107 / 44.4 / 27.7 / 26.4 x 0.001 on its MetaWorld",
        falls("oat-pow2"),
    ),
    Claim(
        "rate-distortion",
        "`oat-pow2` closely tracks `oat`",
        "within a factor of 1.22 on its MetaWorld",
        tracks,
    ),
    Claim(
        "rate-distortion",
        "`bin` is nearly lossless",
        "1.2 x 0.001 on its MetaWorld, the next 8.2",
        nearly_lossless,
    ),
    Claim(
        "rate-distortion",
        "The errors themselves",
        "see the table in the paper",
        cannot(
            "our MetaWorld actions are clipped to [-1, 1], so that errors are not comparable; the "
            "other datasets are not here"
        ),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 1",
        "24.4 against 11.3 % on MetaWorld",
        than_oat("oat", is_larger, budget=1),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 2",
        "24.4 against 16.4 % on MetaWorld",
        than_oat("oat", is_larger, budget=2),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 4",
        "24.4 against 19.5 % on MetaWorld",
        than_oat("oat", is_larger, budget=4),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `quest`",
        "24.4 against 17.9 % on MetaWorld",
        than_oat("quest", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `bin`",
        "24.4 against 14.5 % on MetaWorld",
        than_oat("bin", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `fast`, strict",
        "24.4 against 7.1 % on MetaWorld",
        than_oat("fast", is_larger),
    ),
    *(
        Claim(
            "light-policies",
            f"RoboMimic: 8 tokens of `oat` succeed more often than {budget}",
            f"73.1 against {rate} %",
            on_robosuite("oat", is_larger, budget=budget),
        )
        for budget, rate in ((1, 50.8), (2, 52.5), (4, 65.3))
    ),
    *(
        Claim(
            "light-policies",
            f"RoboMimic: `oat` at 8 tokens succeeds more often than `{kind}`",
            f"73.1 against {rate} %",
            on_robosuite(kind, is_larger),
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
    ),
    Claim(
        "ordering",
        "RoboMimic: `oat` at 8 tokens succeeds more often than without nested dropout",
        "73.1 against 61.1 %",
        on_robosuite("oat, no nesting", is_larger),
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
    ),
    Claim(
        "ordering",
        "Without nested dropout `oat` is often closer to its 2 or 4 tokens than to 8",
        "17.6 %, and 16.4 at 2, 19.5 at 4, 24.4 at 8 on MetaWorld",
        nearer_than_all("oat, no nesting", (2, 4)),
    ),
    Claim(
        "horizons-half",
        "With as many tokens, longer chunks succeed less often",
        "63.0 / 57.1 / 56.3 / 19.4 % at 8 / 16 / 32 / 64 actions, 8 tokens",
        swept_trend("horizons-half", LONGER),
        _cells((8, 32, 64), (8,)),
    ),
    Claim(
        "horizons-half",
        "With chunks as long, more tokens succeed more often",
        "6.4 / 26.6 / 37.7 / 56.3 % with 1 / 2 / 4 / 8 tokens, 32 actions",
        swept_trend("horizons-half", MORE),
        _cells((32,), (1, 8)),
    ),
    Claim(
        "horizons-fixed",
        "Executing 8 actions, chunks of 64 succeed less often than shorter ones",
        "27.3 against 54.5 / 57.1 / 62.5 % at 8 / 16 / 32 actions, 8 tokens",
        swept_trend("horizons-fixed", [pair for pair in LONGER if pair[0].startswith("64")]),
        _cells((8, 32, 64), (8,)),
    ),
    Claim(
        "horizons-fixed",
        "Executing 8 actions, chunks of 16 and 32 succeed more often than shorter ones, 8 tokens",
        "54.5 / 57.1 / 62.5 % at 8 / 16 / 32 actions",
        swept_trend("horizons-fixed", list(combinations(_cells((8, 16, 32), (8,)), 2))),
        _cells((8, 32), (8,)),
    ),
    Claim(
        "horizons-fixed",
        "Executing 8 actions, chunks of 64 succeed least often with 1 and 2 tokens",
        "0.8 and 17.5 %, 18.3 and 27.3 % with 4 and 8",
        swept_trend("horizons-fixed", list(product(_cells((64,), (1, 2)), _cells((64,), (4, 8))))),
        _cells((64,), (1, 2, 8)),
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
    Claim(
        "vlm-policies",
        "Success of PaliGemma 2 and Qwen3-VL on four benchmarks",
        "63.7 and 56.8 % on average, `oat` at 16 tokens",
        cannot("there is no GPU, and no weights of these models"),
    ),
    Claim(
        "vlm-policies",
        "The average ranks of PaliGemma 2 and Qwen3-VL over four benchmarks",
        "2.9 and 1.5, `oat` at 16 tokens, the best of all rows",
        cannot("there is no GPU, and no weights of these models"),
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: success of `oat` generally rises with its tokens",
            rates,
            rises(family),
        )
        for name, family, rates in VLM_RATES
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: `oat` is best with all of its tokens",
            rates,
            best_with_all(family),
        )
        for name, family, rates in VLM_RATES
    ),
    *(
        Claim(
            "vlm-policies", f"{name}: `bin` is worst of all kinds", rates, is_least(family, "bin")
        )
        for name, family, rates in (
            ("PaliGemma 2", "paligemma2", "11.2 % on average, the next 48.4"),
            ("Qwen3-VL", "qwen3-vl", "0.8 % on average, the next 32.0"),
        )
    ),
    Claim(
        "vlm-policies",
        "PaliGemma 2: `oat-pow2` is as good as `oat`",
        "63.8 and 63.7 %",
        generated((ONE, NORMAL), (GROUPED, NORMAL), is_nothing),
    ),
    Claim(
        "vlm-policies",
        "Qwen3-VL: `oat` is better than `oat-pow2`",
        "56.8 against 50.6 %",
        generates("qwen3-vl", "oat-pow2", is_larger),
    ),
    *(
        Claim(
            "vlm-policies",
            f"{name}: policies on `oat` are better than on `{kind}`",
            f"{own} against {rate} % on average",
            generates(family, kind, is_larger),
        )
        for name, family, own, others in (
            (
                *("PaliGemma 2", "paligemma2", 63.7),
                {"bin": 11.2, "fast": 48.4, "quest": 58.5, "acodec": 52.6},
            ),
            (
                *("Qwen3-VL", "qwen3-vl", 56.8),
                {"bin": 0.8, "fast": 32.0, "quest": 32.1, "acodec": 52.2},
            ),
        )
        for kind, rate in others.items()
    ),
    Claim(
        "vlm-policies", "16 tokens take 5 calls instead of 16", "16 and 5 calls", calls_of_16_tokens
    ),
    Claim(
        "grouped-generation",
        "PaliGemma 2: powers of two forced on `oat` at inference cost success",
        "79.7 against 66.3 % on LIBERO",
        FORCED_COSTS,
    ),
    Claim(
        "grouped-generation",
        "PaliGemma 2: `oat-pow2` is better than `oat` with powers of two forced",
        "80.8 against 66.3 % on LIBERO",
        GROUPED_GAINS,
    ),
    *(
        Claim(
            "co-training",
            f"PaliGemma 2: `oat` teaches better than `{kind}`",
            f"59.0 against {rate} % on average",
            taught_by(kind, is_larger),
        )
        for kind, rate in (("bin", 53.1), ("fast", 56.5))
    ),
    *(
        Claim(
            "co-training",
            f"PaliGemma 2: `oat` teaches as well as `{kind}`",
            f"59.0 and {rate} % on average",
            taught_by(kind, is_nothing),
        )
        for kind, rate in (("quest", 59.4), ("acodec", 58.3))
    ),
    *(
        Claim(
            "co-training",
            f"Qwen3-VL: `oat` teaches better than `{kind}`",
            f"62.5 against {rate} % on average",
            taught_by(kind, is_larger, "qwen3-vl"),
        )
        for kind, rate in (("quest", 58.3), ("acodec", 58.2), ("fast", 56.0), ("bin", 45.7))
    ),
    *(
        Claim("co-training", says, rates, cannot("there is no GPU, and no weights of these models"))
        for says, rates in (
            (
                "PaliGemma 2: `oat` teaches best on LIBERO and SimplerEnv",
                "89.7 and 34.0 %, the next 89.4 and 33.0",
            ),
            ("PaliGemma 2: `quest` teaches better than `oat` on RoboMimic", "68.5 against 61.0 %"),
            (
                "Qwen3-VL: `oat` teaches best on RoboMimic and RoboCasa365",
                "76.0 and 54.8 %, the next 67.0 and 50.4",
            ),
            ("Qwen3-VL: `quest` teaches better than `oat` on SimplerEnv", "33.0 against 27.5 %"),
        )
    ),
)
