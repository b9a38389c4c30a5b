"""What vision-language policies on small backbones with random weights say about a claim."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.claim_findings import (
    AGREES,
    DIFFERS,
    NOT_MEASURED,
    Acting,
    Found,
    Judge,
    compared,
)
from benchmarks.closed_loop import pooled
from benchmarks.record import read_results

TAUGHT = "co-trained, then expert"
"""Recipe of `benchmarks.vlm_expert` that co-training is compared by."""
NORMAL = "as it is"
"""How a policy of `benchmarks.vlm_pipeline` acts by its own schedule."""


def generated(first: tuple[str, str], second: tuple[str, str], judge: Judge) -> Callable[[], Found]:
    """A function that compares two rows of the pipeline, each acting in some way."""

    def acting(row: str, way: str) -> Acting | None:
        found = read_results("vlm_pipeline").get("policies", {}).get(row)
        if found is None or way not in found["closed loop"]:
            return None
        settings = found["settings"]
        kind = row.split("/")[1]
        tokens = f"{settings['tokens']} tokens, " if kind.startswith("oat") else ""
        how = f"{tokens}temperature {settings['temperature']:g}"
        steps = 0 if kind in ("bin", "fast") else settings["tokenizer_steps"]
        success = found["closed loop"][way]["all"]
        return Acting(success, settings["steps"], how, "vlm_pipeline", steps)

    return compared(lambda: acting(*first), lambda: acting(*second), judge)


def generates(family: str, kind: str, judge: Judge) -> Callable[[], Found]:
    """A function that compares `oat` with another kind whose tokens a policy generates."""
    one, other = (f"vlm-ar/{name}/{family}" for name in (kind, "oat"))
    return generated((one, NORMAL), (other, NORMAL), judge)


def taught_by(kind: str, judge: Judge, family: str = "paligemma2") -> Callable[[], Found]:
    """A function that compares co-training by `oat` with that by another kind, over all seeds."""

    def acting(kind: str) -> Acting | None:
        rows = [
            row
            for row in read_results("vlm_expert").get("rows", {}).values()
            if row["recipe"] == TAUGHT and (row["kind"], row["family"]) == (kind, family)
        ]
        if not rows:
            return None
        success = pooled([row["success"]["flow, deterministic"]["all"] for row in rows])
        steps = round(sum(stage["share"] for stage in rows[0]["stages"]) * rows[0]["steps"])
        how = "the flow from zero noise"
        return Acting(success, steps, how, "vlm_expert", seeds=len(rows))

    return compared(lambda: acting(kind), lambda: acting("oat"), judge)


def calls() -> Found:
    """How many calls a chunk of 16 tokens takes."""
    rows = read_results("policy_latency").get("schedules", {})
    if not rows:
        return NOT_MEASURED
    found = [rows[f"16 tokens, {how}"]["calls"] for how in ("token-wise", "powers of two")]
    status = AGREES if found == [16, 5] else DIFFERS
    return Found(f"{found[0]} and {found[1]} calls", status, "policy_latency")
