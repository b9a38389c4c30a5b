"""What vision-language policies on small backbones with random weights say about a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from benchmarks.claim_findings import (
    AGREES,
    DIFFERS,
    FITTED,
    NOT_MEASURED,
    Acting,
    Found,
    Judge,
    Recipe,
    compared,
    trend,
)
from benchmarks.closed_loop import pooled
from benchmarks.record import read_results
from benchmarks.vlm_pipeline import AT_BUDGET, OTHER_KINDS
from benchmarks.vlm_training import DECODING
from oatkit.tokenizers.kind_table import kind_named

TAUGHT = "co-trained, then expert"
"""Recipe of `benchmarks.vlm_expert` that co-training is compared by."""
TAUGHT_ACTS = "flow, deterministic"
"""How its experts act: from zero noise."""
NORMAL = "as it is"
"""How a policy of `benchmarks.vlm_pipeline` acts by its own schedule, with all of its tokens."""
WAYS = {**{AT_BUDGET.format(budget): str(budget) for budget in (1, 2, 4, 8)}, NORMAL: "all"}
"""Ways to act to how many tokens are generated, in words."""


def generated(first: tuple[str, str], second: tuple[str, str], judge: Judge) -> Callable[[], Found]:
    """A function that compares two rows of the pipeline, each acting in some way."""
    return compared(lambda: _generating(*first), lambda: _generating(*second), judge)


def _generating(row: str, way: str = NORMAL) -> Acting | None:
    """A row of the pipeline that acts in some way."""
    found = read_results("vlm_pipeline").get("policies", {}).get(row)
    if found is None or way not in found["closed loop"]:
        return None
    settings, kind = found["settings"], row.split("/")[1]
    if kind == "fast" and settings["decoding"] != DECODING:
        return None  # the paper mends sequences here
    tokens = f"{settings['tokens']} tokens, " if kind.startswith("oat") else ""
    how = f"{tokens}temperature {settings['temperature']:g}"
    recipe = {**_shared(settings, kind), "temperature": settings["temperature"]}
    recipe |= {"steps": settings["steps"], "batch size": settings["batch_size"]}
    return Acting(found["closed loop"][way]["all"], how, "vlm_pipeline", (recipe,))


def _shared(settings: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What vision-language policies of one comparison share beside their training."""
    is_learned = kind_named(kind.split(",")[0]).is_learned
    return {
        FITTED: settings["tokenizer_steps"] if is_learned else None,
        "actions": settings["horizon"],
        "demonstrations": settings["demonstrations"],
        "pixels": settings["image_size"],
    }


def rises(family: str, kind: str = "oat") -> Callable[[], Found]:
    """A function that says whether a kind acts more often with success with more tokens, for every
    pair of budgets."""
    return _by_budget(family, kind, list(combinations(WAYS, 2)))


def best_with_all(family: str) -> Callable[[], Found]:
    """A function that says whether `oat` acts most often with success with all of its tokens."""
    return _by_budget(family, "oat", [(way, NORMAL) for way in WAYS if way != NORMAL])


def _by_budget(family: str, kind: str, pairs: Sequence[tuple[str, str]]) -> Callable[[], Found]:
    """A function for the trend of a kind over pairs of ways to act."""
    row = f"vlm-ar/{kind}/{family}"
    return trend(
        lambda: {
            f"{WAYS[one]} and {WAYS[other]} tokens": (
                _generating(row, one),
                _generating(row, other),
            )
            for one, other in pairs
        }
    )


def is_least(family: str, kind: str) -> Callable[[], Found]:
    """A function that says whether policies on a kind act least often with success of all."""

    def acting(name: str) -> Acting | None:
        return _generating(f"vlm-ar/{name}/{family}")

    others = [other for other in (*OTHER_KINDS, "oat") if other != kind]
    return trend(lambda: {f"`{kind}` and `{o}`": (acting(kind), acting(o)) for o in others})


def together(*findings: Callable[[], Found]) -> Callable[[], Found]:
    """A function that joins findings: all have to agree, and one that does not is enough."""

    def find() -> Found:
        found = [one() for one in findings]
        statuses = [one.status for one in found]
        worst = [s for s in statuses if s == DIFFERS] or [s for s in statuses if s != AGREES]
        status = worst[0] if worst else AGREES
        ours = "; ".join(one.ours for one in found if one.ours)
        return Found(ours, status, found[0].source) if ours else NOT_MEASURED

    return find


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
        success = pooled([row["success"][TAUGHT_ACTS]["all"] for row in rows])
        recipes = tuple(_expert_recipe(row) for row in rows)
        return Acting(success, "the flow from zero noise", "vlm_expert", recipes)

    return compared(lambda: acting(kind), lambda: acting("oat"), judge)


def _expert_recipe(row: Mapping[str, Any]) -> Recipe:
    """How an expert was trained, over all of its stages."""
    stages = [f"{round(stage['share'] * row['steps'])}" for stage in row["stages"]]
    return {
        "steps": sum(map(int, stages)),
        "steps of the stages": " + ".join(stages),
        "batch size": row["batch_size"],
        **_shared(row["settings"], row["kind"]),
    }
