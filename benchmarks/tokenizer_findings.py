"""What errors and tokens of tokenizers say about a claim of the paper; their values decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.claim_findings import AGREES, DIFFERS, MISSING, NOT_MEASURED, Found
from benchmarks.record import read_result, read_results
from oatkit.jobs.paper_tables import PAPER_KINDS

TRACKS = 1.25
"""Largest factor between two errors that track each other."""
COMPACT = 0.5
"""Largest share of tokens in the numbers of a chunk that is compact."""
SOURCE = "tokenizer_rate_distortion"
NAMES = {
    "metaworld": "MetaWorld",
    "pusht": "PushT",
    "cr5": "CR5",
    "robosuite": "Sawyer",
    "panda": "Panda",
}
"""Datasets whose errors decide."""
IS_ORDERED = {"fast": True, "bin": False, "quest": False}
"""What the paper says of kinds whose order does not depend on training."""
KINDS = ("bin", "fast, fitted", "quest", "acodec", "oat", "oat-pow2")


def _errors(*kinds: str) -> dict[str, list[list[float]]]:
    """Dataset to the errors of kinds at every budget, where all kinds were measured."""
    rows = read_results(SOURCE)
    return {
        data: [[budget["mse"] for budget in rows[data][kind]["budgets"]] for kind in kinds]
        for data in NAMES
        if all(kind in rows.get(data, {}) for kind in kinds)
    }


def _on(datasets: Sequence[str], *kinds: str) -> str:
    """Datasets in words, each with the steps of kinds that were trained on it."""
    return ", ".join(f"{NAMES[data]} ({_steps(data, *kinds)})" for data in datasets)


def _steps(data: str, *kinds: str) -> str:
    rows = read_results(SOURCE)[data]
    found = dict.fromkeys(rows[kind]["steps"] for kind in kinds)
    return f"{' and '.join(str(steps) for steps in found if steps)} steps"


def _are_alike(data: str, *kinds: str) -> bool:
    """Whether all trained kinds had the same number of steps on a dataset."""
    rows = read_results(SOURCE)[data]
    return len({rows[kind]["steps"] for kind in kinds} - {0}) <= 1


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
        where = f"it falls on {_on(falling, kind)}" if falling else "it falls nowhere"
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
    alike = [data for data in widest if _are_alike(data, "oat", "oat-pow2")]
    unlike = _on([data for data in widest if data not in alike], "oat", "oat-pow2")
    if not alike:
        return Found(
            f"errors of {unlike}", f"{MISSING} (not only the tokens differ: {unlike})", SOURCE
        )
    factors = ", ".join(f"{widest[data]:.2f} on {_on([data], 'oat', 'oat-pow2')}" for data in alike)
    shown = f"within a factor of {factors} at every budget"
    if unlike:
        shown += f"; left out, as not only the tokens differ: {unlike}"
    status = AGREES if all(widest[data] <= TRACKS for data in alike) else DIFFERS
    return Found(shown, status, SOURCE)


def nearly_lossless() -> Found:
    """Whether the error of `bin` is the smallest."""
    found = {data: [errors[-1] for errors in kinds] for data, kinds in _errors(*KINDS).items()}
    if not found:
        return NOT_MEASURED
    smallest = [data for data, errors in found.items() if errors[0] == min(errors)]
    where = f"the smallest on {_on(smallest, *KINDS)}" if smallest else "the smallest nowhere"
    data, (first, *others) = next(iter(found.items()))
    shown = (
        f"`bin` {1e3 * first:.2g}, the next {1e3 * min(others):.2g} x 0.001 on {NAMES[data]}; "
        f"{where}"
    )
    return Found(shown, AGREES if len(smallest) == len(found) else DIFFERS, SOURCE)


def compact() -> Found:
    """Whether all kinds but `bin` have far fewer tokens than a chunk has numbers."""
    rows = read_results(SOURCE)
    found = {
        data: {kind: rows[data][kind]["budgets"][-1]["tokens"] for kind in KINDS}
        for data in _errors(*KINDS)
    }
    if not found:
        return NOT_MEASURED
    is_so = all(
        count <= COMPACT * tokens["bin"]
        for tokens in found.values()
        for kind, count in tokens.items()
        if kind != "bin"
    )
    shown = "; ".join(
        f"{', '.join(f'`{kind}` {count:.3g}' for kind, count in tokens.items())} tokens on "
        f"{NAMES[data]}"
        for data, tokens in found.items()
    )
    return Found(shown, AGREES if is_so else DIFFERS, SOURCE)


def ordered() -> Found:
    """Whether prefixes of `oat`, `oat-pow2` and `fast` are coarse chunks, and those of `bin` and
    `quest` are none."""
    found = _errors("oat", "oat-pow2")
    if not found:
        return NOT_MEASURED
    falling = [data for data, kinds in found.items() if all(map(_falls, kinds))]
    on = _on(falling, "oat", "oat-pow2") or "none"
    tried = read_results("decodability").items()
    marks = {kind: row["ordered"] for kind, row in tried if "ordered" in row}
    shown = [f"the errors of `oat` and `oat-pow2` fall with every budget on {on}"]
    shown += [f"`{kind}`: {marks[kind]['evidence']}" for kind in IS_ORDERED if kind in marks]
    holds = [marks[kind]["holds"] == is_so for kind, is_so in IS_ORDERED.items() if kind in marks]
    if len(falling) < len(found) or not all(holds):
        status = DIFFERS
    elif missing := [f"`{kind}`" for kind in IS_ORDERED if kind not in marks]:
        status = f"{MISSING} (prefixes of {' and '.join(missing)} were not decoded)"
    else:
        status = AGREES
    source = f"{SOURCE}, decodability" if marks else SOURCE
    return Found("; ".join(shown), status, source)


def refines() -> Found:
    """Whether the chunk of the picture comes nearer with every budget."""
    found: Mapping[str, Any] = read_results("prefix_picture").get("mse", {})
    if not found:
        return NOT_MEASURED
    settings = read_result("prefix_picture")["settings"]
    shown = " / ".join(f"{1e3 * error:.3g}" for error in found.values())
    words = (
        f"{shown} x 0.001 with {' / '.join(found)} tokens, one chunk of MetaWorld, "
        f"tokenizer `{settings['tokenizer']}` of {settings['steps']} steps"
    )
    status = AGREES if _falls(list(found.values())) else DIFFERS
    return Found(words, status, "prefix_picture")


def decodes() -> Found:
    """Whether all kinds but `fast` decode whatever ids they are given."""
    found = read_results("decodability")
    if not found:
        return NOT_MEASURED
    shown = ", ".join(f"`{kind}` {row['decoded']} of {row['tried']}" for kind, row in found.items())
    is_so = all((row["decoded"] == row["tried"]) == (kind != "fast") for kind, row in found.items())
    settings = read_result("decodability")["settings"]
    made = f"preset `{settings['preset']}`, {settings['steps']} steps where they learn"
    status = AGREES if is_so else DIFFERS
    if is_so and not found.keys() >= set(PAPER_KINDS):
        status = f"{MISSING} (not all kinds were tried)"
    return Found(f"{shown} drawn sequences; {made}", status, "decodability")
