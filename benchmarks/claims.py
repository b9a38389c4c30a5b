"""The paper's claims, and what the JSON files of `benchmarks/results/` say about each.

Nothing here is decided by hand: a claim has a function that reads results and returns what was
found, and the ends of the 95 % interval of a difference decide whether it agrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks import record
from benchmarks.record import read_results
from benchmarks.vlm_pipeline import POST_HOC
from oatkit.evaluation.success_statistics import success_rate
from oatkit.storage.records import read_record
from oatkit.types import Reproduction

AGREES, DIFFERS, UNSURE, MISSING = "agrees", "does not", "too few episodes to tell", "not measured"
SAME = 0.05
"""Largest difference of success that counts as none."""
TRACKS = 1.25
"""Largest factor between two errors that track each other."""


@dataclass(frozen=True)
class Found:
    """What was found about a claim.

    Attributes:
        ours: Numbers in words.
        status: Whether it agrees.
    """

    ours: str
    status: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        table: Name of the table or figure in `PAPER_TABLES`.
        says: What the paper claims.
        paper: Numbers of the paper, in words.
        find: Function that reads what was measured here.
    """

    table: str
    says: str
    paper: str
    find: Callable[[], Found]


NOT_MEASURED = Found("", MISSING)


def cannot(why: str) -> Callable[[], Found]:
    """A function for what cannot be run here."""
    return lambda: Found("", f"cannot be run here ({why})")


def difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[float, float, float]:
    """Second rate less the first, with Newcombe's interval for independent proportions."""
    change = second["rate"] - first["rate"]
    down = math.hypot(second["rate"] - second["low"], first["high"] - first["rate"])
    up = math.hypot(second["high"] - second["rate"], first["rate"] - first["low"])
    return change, change - down, change + up


def is_larger(low: float, high: float) -> str:
    """The status of a claim that a difference is more than nothing."""
    return AGREES if low > 0 else DIFFERS if high < 0 else UNSURE


def is_nothing(low: float, high: float) -> str:
    """The status of a claim that there is no difference that matters."""
    if low > SAME or high < -SAME:
        return DIFFERS
    return AGREES if low >= -SAME and high <= SAME else UNSURE


# Light policies: paired comparisons with `oat` at 8 tokens are in the JSON


def than_oat(row: str, budget: str, judge: Callable[[float, float], str]) -> Callable[[], Found]:
    """A function that compares `oat` at 8 tokens with another row, on the same episodes."""

    def find() -> Found:
        rows = read_results("policy_table").get("state", {})
        pair = rows.get(row, {}).get("against", {}).get(budget)
        if pair is None:
            return NOT_MEASURED
        low, high = -pair["high"], -pair["low"]
        steps = {rows[name]["steps"] for name in ("oat", row)}
        ours = (
            f"{-100 * pair['difference']:+.1f} points ({100 * low:+.0f} to {100 * high:+.0f}), "
            f"{pair['episodes']} episodes, temperature "
            f"{rows[row]['protocol']['sampling']['temperature']:g}"
        )
        if len(steps) > 1:
            longest, shortest = max(steps), min(steps)
            why = f"{shortest} steps of training against {longest} say nothing about tokens"
            return Found(ours, f"{MISSING} ({why})")
        return Found(f"{ours}, {steps.pop()} steps", judge(low, high))

    return find


# Tokenizers


def _errors(kind: str) -> list[float]:
    rows = read_results("tokenizer_rate_distortion").get("metaworld", {})
    return [1e3 * budget["mse"] for budget in rows.get(kind, {}).get("budgets", [])]


def falls(kind: str) -> Callable[[], Found]:
    """A function that says whether the error of a kind falls with every budget."""

    def find() -> Found:
        errors = _errors(kind)
        if not errors:
            return NOT_MEASURED
        is_falling = all(after < before for before, after in pairwise(errors))
        shown = " / ".join(f"{error:.3g}" for error in errors)
        return Found(f"{shown} x 0.001", AGREES if is_falling else DIFFERS)

    return find


def tracks() -> Found:
    """Whether the errors of powers of two stay near those of one by one."""
    one, grouped = _errors("oat"), _errors("oat-pow2")
    if not one or not grouped:
        return NOT_MEASURED
    factors = [b / a for a, b in zip(one, grouped, strict=True)]
    widest = max(max(factor, 1 / factor) for factor in factors)
    status = AGREES if widest <= TRACKS else DIFFERS
    return Found(f"within a factor of {widest:.2f} at every budget", status)


def nearly_lossless() -> Found:
    """Whether the error of `bin` is the smallest."""
    kinds = ("bin", "fast, fitted", "quest", "acodec", "oat", "oat-pow2")
    last = {kind: errors[-1] for kind in kinds if (errors := _errors(kind))}
    if len(last) < len(kinds):
        return NOT_MEASURED
    shown = f"`bin` {last['bin']:.2g}, the next {sorted(last.values())[1]:.2g} x 0.001"
    return Found(shown, AGREES if min(last, key=last.__getitem__) == "bin" else DIFFERS)


# Vision-language policies, on small backbones with random weights


def _acting(row: str, way: str = "as it is") -> Mapping[str, Any] | None:
    rows = read_results("vlm_pipeline").get("policies", {})
    found = rows.get(row, {}).get("closed loop", {}).get(way)
    return None if found is None else found["all"]


def compared(
    first: Callable[[], Mapping[str, Any] | None],
    second: Callable[[], Mapping[str, Any] | None],
    judge: Callable[[float, float], str],
) -> Callable[[], Found]:
    """A function that says how much more often the second of two acts with success."""

    def find() -> Found:
        one, other = first(), second()
        if one is None or other is None:
            return NOT_MEASURED
        change, low, high = difference(one, other)
        ours = (
            f"{100 * one['rate']:.0f} and {100 * other['rate']:.0f} %: {100 * change:+.0f} points "
            f"({100 * low:+.0f} to {100 * high:+.0f}), {one['episodes']} and {other['episodes']} "
            "episodes"
        )
        return Found(ours, judge(low, high))

    return find


def grouping(
    first: tuple[str, str], second: tuple[str, str], judge: Callable[[float, float], str]
) -> Callable[[], Found]:
    """A function that compares two rows of the pipeline, each acting in some way."""
    return compared(lambda: _acting(*first), lambda: _acting(*second), judge)


def _taught(kind: str, family: str) -> Mapping[str, Any] | None:
    """Success of the expert that tokens of a kind taught, over all seeds that were run."""
    rows = read_results("vlm_expert").get("rows", {}).values()
    own = [
        row["success"]["flow, deterministic"]["all"]
        for row in rows
        if row["recipe"] == "co-trained, then expert"
        and (row["kind"], row["family"]) == (kind, family)
    ]
    if not own:
        return None
    total = success_rate(sum(x["successes"] for x in own), sum(x["episodes"] for x in own))
    return vars(total)


def taught_by(
    kind: str, judge: Callable[[float, float], str], family: str = "paligemma2"
) -> Callable[[], Found]:
    """A function that compares co-training by `oat` with that by another kind."""
    return compared(lambda: _taught(kind, family), lambda: _taught("oat", family), judge)


def calls() -> Found:
    """How many calls a chunk of 16 tokens takes."""
    rows = read_results("policy_latency").get("schedules", {})
    if not rows:
        return NOT_MEASURED
    found = [rows[f"16 tokens, {how}"]["calls"] for how in ("token-wise", "powers of two")]
    return Found(f"{found[0]} and {found[1]} calls", AGREES if found == [16, 5] else DIFFERS)


# What `oatkit reproduce` found at the small scale, where its record was put beside the results


def reproduced(
    table: str, first: str, second: str, judge: Callable[[float, float], str]
) -> Callable[[], Found]:
    """A function that compares two rows of a record of `oatkit reproduce`, with all tokens."""

    def rate(row: str) -> Mapping[str, Any] | None:
        path = record.RESULTS / f"reproduce_{table}.json"
        if not path.exists():
            return None
        found = read_record(path, Reproduction)
        for number in found.numbers:
            if number.row == row and number.low is not None and number.high is not None:
                ends = {"rate": number.value, "low": number.low, "high": number.high}
                episodes = f"{found.settings['episodes']} a task"
                return {name: end / 100 for name, end in ends.items()} | {"episodes": episodes}
        return None

    return compared(lambda: rate(first), lambda: rate(second), judge)


ONE, GROUPED = "vlm-ar/oat/{}", "vlm-ar/oat-pow2/{}"
NORMAL = "as it is"
CLAIMS = (
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
        than_oat("oat", "1", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat`: 8 tokens succeed more often than 4",
        "24.4 against 19.5 % on MetaWorld",
        than_oat("oat", "4", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `quest`",
        "24.4 against 17.9 % on MetaWorld",
        than_oat("quest", "16", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `bin`",
        "24.4 against 14.5 % on MetaWorld",
        than_oat("bin", "128", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens succeeds more often than `fast`, strict",
        "24.4 against 7.1 % on MetaWorld",
        than_oat("fast", "all", is_larger),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens is best on LIBERO-Long, RoboMimic and RoboCasa",
        "56.3, 73.1 and 54.6 %",
        cannot("their demonstrations and simulators are not here"),
    ),
    Claim(
        "light-policies",
        "`oat` at 8 tokens is best on two tasks of a real arm",
        "16 of 20 each",
        cannot("there is no robot: the real half of the table is absent"),
    ),
    Claim(
        "ordering",
        "`oat` at 8 tokens succeeds more often than without nested dropout",
        "24.4 against 17.6 % on MetaWorld",
        than_oat("oat, no nesting", "8", is_larger),
    ),
    Claim(
        "horizons-half",
        "With as many tokens, longer chunks succeed less often",
        "56.3 % at 32 actions, 19.4 % at 64, 8 tokens",
        reproduced("horizons-half", "64 actions, 8 tokens", "32 actions, 8 tokens", is_larger),
    ),
    Claim(
        "horizons-fixed",
        "Executing 8 actions, chunks of 32 succeed more often than chunks of 8, with 8 tokens",
        "62.5 against 54.5 %",
        reproduced("horizons-fixed", "8 actions, 8 tokens", "32 actions, 8 tokens", is_larger),
    ),
    Claim(
        "codebook",
        "1000 codes succeed more often than 240",
        "56.3 against 29.2 %",
        reproduced("codebook", "levels 8 6 5", "levels 8 5 5 5", is_larger),
    ),
    Claim(
        "codebook",
        "1000 codes succeed more often than 4375",
        "56.3 against 46.9 %",
        reproduced("codebook", "levels 7 5 5 5 5", "levels 8 5 5 5", is_larger),
    ),
    Claim(
        "vlm-policies",
        "Success of PaliGemma 2 and Qwen3-VL on four benchmarks",
        "63.7 and 56.8 % on average, `oat` at 16 tokens",
        cannot("no GPU, no published weights, none of its simulators"),
    ),
    Claim(
        "vlm-policies",
        "PaliGemma 2: `oat-pow2` is as good as `oat`",
        "63.8 and 63.7 %",
        grouping(
            (ONE.format("paligemma2"), NORMAL), (GROUPED.format("paligemma2"), NORMAL), is_nothing
        ),
    ),
    Claim(
        "vlm-policies",
        "Qwen3-VL: `oat` is better than `oat-pow2`",
        "56.8 against 50.6 %",
        grouping((GROUPED.format("qwen3-vl"), NORMAL), (ONE.format("qwen3-vl"), NORMAL), is_larger),
    ),
    Claim("vlm-policies", "16 tokens take 5 calls instead of 16", "16 and 5 calls", calls),
    Claim(
        "grouped-generation",
        "PaliGemma 2: powers of two forced on `oat` at inference cost success",
        "79.7 against 66.3 % on LIBERO",
        grouping(
            (ONE.format("paligemma2"), POST_HOC), (ONE.format("paligemma2"), NORMAL), is_larger
        ),
    ),
    Claim(
        "grouped-generation",
        "PaliGemma 2: `oat-pow2` is better than `oat` with powers of two forced",
        "80.8 against 66.3 % on LIBERO",
        grouping(
            (ONE.format("paligemma2"), POST_HOC), (GROUPED.format("paligemma2"), NORMAL), is_larger
        ),
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
    Claim(
        "co-training",
        "Qwen3-VL: `oat` teaches better than `quest`, the next best",
        "62.5 %, the next 58.3 %, on average",
        taught_by("quest", is_larger, "qwen3-vl"),
    ),
)
