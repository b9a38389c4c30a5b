"""What errors and tokens of tokenizers say about a claim of the paper; their values decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.claim_findings import AGREES, DIFFERS, NOT_MEASURED, Found
from benchmarks.record import read_results

TRACKS = 1.25
"""Largest factor between two errors that track each other."""
COMPACT = 0.5
"""Largest share of tokens in the numbers of a chunk that is compact."""
SOURCE = "tokenizer_rate_distortion"
NAMES = {"metaworld": "MetaWorld", "pusht": "PushT", "cr5": "CR5"}
"""Datasets whose errors decide."""
KINDS = ("bin", "fast, fitted", "quest", "acodec", "oat", "oat-pow2")


def _errors(*kinds: str) -> dict[str, list[list[float]]]:
    """Dataset to the errors of kinds at every budget, where all kinds were measured."""
    rows = read_results(SOURCE)
    return {
        data: [[budget["mse"] for budget in rows[data][kind]["budgets"]] for kind in kinds]
        for data in NAMES
        if all(kind in rows.get(data, {}) for kind in kinds)
    }


def _on(datasets: Sequence[str]) -> str:
    return ", ".join(NAMES[data] for data in datasets)


def _falls(errors: Sequence[float]) -> bool:
    return all(after < before for before, after in pairwise(errors))


def falls(kind: str) -> Callable[[], Found]:
    """A function that says whether the error of a kind falls with every budget."""

    def find() -> Found:
        found = {data: errors for data, (errors,) in _errors(kind).items()}
        if "metaworld" not in found:
            return NOT_MEASURED
        shown = " / ".join(f"{1e3 * error:.3g}" for error in found["metaworld"])
        falling = [data for data, errors in found.items() if _falls(errors)]
        where = f"it falls on {_on(falling)}" if falling else "it falls nowhere"
        status = AGREES if len(falling) == len(found) else DIFFERS
        return Found(f"{shown} x 0.001 on MetaWorld; {where}", status, SOURCE)

    return find


def tracks() -> Found:
    """Whether the errors of powers of two stay near those of one by one."""
    found = _errors("oat", "oat-pow2")
    if not found:
        return NOT_MEASURED
    widest = {
        data: max(max(a / b, b / a) for a, b in zip(one, grouped, strict=True))
        for data, (one, grouped) in found.items()
    }
    steps = {data: read_results(SOURCE)[data]["oat"]["steps"] for data in widest}
    shown = ", ".join(
        f"{factor:.2f} on {NAMES[data]} ({steps[data]} steps)" for data, factor in widest.items()
    )
    status = AGREES if max(widest.values()) <= TRACKS else DIFFERS
    return Found(f"within a factor of {shown} at every budget", status, SOURCE)


def nearly_lossless() -> Found:
    """Whether the error of `bin` is the smallest."""
    found = {data: [errors[-1] for errors in kinds] for data, kinds in _errors(*KINDS).items()}
    if not found:
        return NOT_MEASURED
    first, *others = (1e3 * error for error in found["metaworld"])
    smallest = [data for data, errors in found.items() if errors[0] == min(errors)]
    where = f"the smallest on {_on(smallest)}" if smallest else "the smallest nowhere"
    shown = f"`bin` {first:.2g}, the next {min(others):.2g} x 0.001 on MetaWorld; {where}"
    return Found(shown, AGREES if len(smallest) == len(found) else DIFFERS, SOURCE)


def compact() -> Found:
    """Whether all kinds but `bin` have far fewer tokens than a chunk has numbers."""
    rows = read_results(SOURCE).get("metaworld", {})
    if any(kind not in rows for kind in KINDS):
        return NOT_MEASURED
    tokens = {kind: rows[kind]["budgets"][-1]["tokens"] for kind in KINDS}
    numbers = tokens["bin"]
    is_so = all(count <= COMPACT * numbers for kind, count in tokens.items() if kind != "bin")
    shown = ", ".join(f"`{kind}` {count:.3g}" for kind, count in tokens.items())
    return Found(f"{shown} tokens on MetaWorld", AGREES if is_so else DIFFERS, SOURCE)


def refines() -> Found:
    """Whether the chunk of the picture comes nearer with every budget."""
    found: Mapping[str, Any] = read_results("prefix_picture").get("mse", {})
    if not found:
        return NOT_MEASURED
    shown = " / ".join(f"{1e3 * error:.3g}" for error in found.values())
    words = f"{shown} x 0.001 with {' / '.join(found)} tokens, one chunk of MetaWorld"
    status = AGREES if _falls(list(found.values())) else DIFFERS
    return Found(words, status, "prefix_picture")


def decodes() -> Found:
    """Whether all kinds but `fast` decode whatever ids they are given."""
    found = read_results("decodability")
    if not found:
        return NOT_MEASURED
    shown = ", ".join(f"`{kind}` {row['decoded']} of {row['tried']}" for kind, row in found.items())
    is_so = all((row["decoded"] == row["tried"]) == (kind != "fast") for kind, row in found.items())
    return Found(f"{shown} drawn sequences", AGREES if is_so else DIFFERS, "decodability")
