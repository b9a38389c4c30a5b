"""How JSON records of older versions become records of the next version.

Whoever changes the JSON of a record raises its `version`, adds a function here that makes values of
the version before into values of the new one, and keeps a file of the version before in
`tests/storage/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Upgrade = Callable[[Json], Json]
"""JSON values of one version to those of the next; the reader sets the version itself."""


def _demo_from_1(record: Json) -> Json:
    """The steps of the policy's training are planned; they were found by a timed trial."""
    others = {name: value for name, value in record.items() if name != "policy_steps"}
    return others | {"settings": {**record["settings"], "policy_steps": record["policy_steps"]}}


def _policy_evaluation_from_1(record: Json) -> Json:
    return record | {
        "settings": _with_sampling(record["settings"]),
        "episodes": [with_auto(episode) for episode in record["episodes"]],
        "budgets": [with_auto(result) for result in record["budgets"]],
        "videos": [with_auto(video) for video in record["videos"]],
    }


def _policy_evaluation_from_3(record: Json) -> Json:
    """The budget of a flow expert is its number of Euler steps; it was one of tokens that it never
    generates."""
    if record["settings"].get("head") != "flow":
        return record
    steps = {result["budget"]: round(result["calls"]) for result in record["budgets"]}
    names = {str(budget): str(number) for budget, number in steps.items()}
    parts = {
        part: [value | {"budget": steps[value["budget"]]} for value in record[part]]
        for part in ("episodes", "budgets", "videos")
    }
    latencies = {names.get(name, name): ms for name, ms in record["latencies_ms"].items()}
    return record | parts | {"latencies_ms": latencies}


def _policy_evaluation_from_4(record: Json) -> Json:
    """Chunks were neither blended nor late, and there was one draw of each."""
    return record | {"settings": {**record["settings"], "blend": None, "delay": 0, "draws": 1}}


def _policy_measurement_from_1(record: Json) -> Json:
    return record | {"auto": record["auto"] and with_auto(record["auto"])}


def _policy_sweep_from_1(record: Json) -> Json:
    rows = [row | {"result": with_auto(row["result"])} for row in record["rows"]]
    return record | {"rows": rows}


def _reproduction_from_1(record: Json) -> Json:
    """Every number has its own seed and episodes; all of a record had the same."""
    settings = dict(record["settings"])
    own = {name: settings.pop(name) for name in ("seed", "episodes") if name in settings}
    settings.pop("temperature", None)  # every number had it already
    numbers = []
    for number in record["numbers"]:
        acts = number["low"] is not None
        numbers.append(number | own | {"episodes": own.get("episodes") if acts else None})
    return record | {"settings": settings, "numbers": numbers}


def _unchanged(record: Json) -> Json:
    """Nothing to do: the next version only has values that may be missing."""
    return record


def with_auto(value: Json) -> Json:
    """Values with a budget; in version 1 null stood for "auto", since then it is all tokens."""
    return value | {"budget": "auto" if value["budget"] is None else value["budget"]}


def _with_sampling(settings: Json) -> Json:
    """The sampling rules of version 1 stood among the other settings, and `top_p` was unknown."""
    rules = {name: settings[name] for name in ("temperature", "top_k", "seed")}
    others = {k: v for k, v in settings.items() if k not in rules}
    return others | {"sampling": {**rules, "top_p": 1.0}}


UPGRADES: Mapping[str, Mapping[int, Upgrade]] = {
    "oatkit/backbone-check": {1: _unchanged},
    "oatkit/benchmark-evaluation": dict.fromkeys((1, 2), _unchanged),
    "oatkit/dataset-info": {1: _unchanged},
    "oatkit/demo": {1: _demo_from_1},
    "oatkit/policy-evaluation": {
        1: _policy_evaluation_from_1,
        2: _unchanged,
        3: _policy_evaluation_from_3,
        4: _policy_evaluation_from_4,
        5: _unchanged,
    },
    "oatkit/policy-measurement": {1: _policy_measurement_from_1, 2: _unchanged},
    "oatkit/policy-sweep": {1: _policy_sweep_from_1, 2: _unchanged},
    "oatkit/reproduction": {1: _reproduction_from_1, 2: _unchanged},
    "oatkit/tokenizer-comparison": dict.fromkeys((1, 2, 3), _unchanged),
    "oatkit/tokenizer-measurement": {1: _unchanged},
    "oatkit/tokenizer-sweep": {1: _unchanged},
}
"""Schema to the functions that lead on from each of its older versions."""
