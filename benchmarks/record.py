"""Where a benchmark's numbers go, with what they depend on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oatkit.storage.record_upgrades import with_auto
from oatkit.storage.records import upgraded

RESULTS = Path(__file__).parent / "results"
"""Where this process reads and writes results; see `keep_apart`."""
TINY_RESULTS = Path("out/bench/tiny-results")
"""Where results go that mean nothing."""
PACKAGES = ("numpy", "pyarrow", "torch")


FORMER_AUTO = "auto, 4 to 8"
"""The rule "auto" of `control` before it became two to four steps of a chunk of 32."""


def _auto_in_rows(rows: dict[str, Any]) -> dict[str, Any]:
    """Rows with "auto" where version 1 had the budget null."""
    return {
        name: row | {"budgets": [with_auto(budget) for budget in row["budgets"]]}
        for name, row in rows.items()
    }


def _policy_table_from_1(record: dict[str, Any]) -> dict[str, Any]:
    tables = {observed: _auto_in_rows(rows) for observed, rows in record["results"].items()}
    return record | {"results": tables}


def _policy_pusht_from_1(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"results": _auto_in_rows(record["results"])}


def _own_settings(rows: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Rows that carry their settings, where version 2 kept those of the last run for all.

    The minutes of the other runs were not kept; of tokenizers, those of the light recipe were.
    """
    light = settings.get("light", {})
    found = {}
    for name, row in rows.items():
        protocol = dict(row["protocol"])
        if "sampling" not in protocol:
            rules = {rule: protocol.pop(rule) for rule in ("temperature", "top_k")}
            protocol = {**protocol, "sampling": rules}
        own = {
            "preset": settings["preset"],
            "tokenizer_preset": settings["preset"],
            "minutes": None,
            "episodes": row["budgets"][0]["tasks"][0]["success"]["episodes"],
            "tokenizer": _light_tokenizer(row, light),
        }
        found[name] = {**row, "protocol": protocol, "settings": own}
    return found


def _light_tokenizer(row: dict[str, Any], light: dict[str, Any]) -> dict[str, Any] | None:
    """The settings of a row's tokenizer, where it was one of the light recipe."""
    if row["kind"] == "quest" and light:
        return {"levels": light["levels"]}
    is_light = row["kind"] in ("oat", "oat-pow2") and row["tokens"] == light.get("num_tokens")
    return dict(light) if is_light else None


def _policy_table_from_2(record: dict[str, Any]) -> dict[str, Any]:
    settings = record["settings"]
    tables = {name: _own_settings(rows, settings) for name, rows in record["results"].items()}
    return record | {"results": tables, "settings": {"reference": settings["reference"]}}


def _policy_pusht_from_2(record: dict[str, Any]) -> dict[str, Any]:
    rows = _own_settings(record["results"], record["settings"])
    return record | {"results": rows, "settings": {}}


def _vlm_pipeline_from_1(record: dict[str, Any]) -> dict[str, Any]:
    found, settings = record["results"], record["settings"]
    rows = {name: {**row, "settings": settings} for name, row in found["policies"].items()}
    return record | {"results": {**found, "policies": rows}}


def _vlm_pipeline_from_2(record: dict[str, Any]) -> dict[str, Any]:
    """Rows that say their temperature; all were evaluated with the likeliest tokens."""
    found = record["results"]
    rows = {
        name: {**row, "settings": {**row["settings"], "temperature": 0.0}}
        for name, row in found["policies"].items()
    }
    return record | {"results": {**found, "policies": rows}}


def _vlm_pipeline_from_3(record: dict[str, Any]) -> dict[str, Any]:
    """Rows that say how `fast` decodes, which was strict until then, and the tokenizers' batch."""
    found, own = record["results"], {"tokenizer_batch_size": 64, "decoding": "strict"}
    rows = {
        name: {**row, "settings": {**row["settings"], **own}}
        for name, row in found["policies"].items()
    }
    return record | {"results": {**found, "policies": rows}}


def _vlm_expert_from_1(record: dict[str, Any]) -> dict[str, Any]:
    """Rows that say what they share with the pipeline; all had its default options until then."""
    shared = {"demonstrations": 100, "image_size": 64, "horizon": 16, "tokens": 8}
    shared |= {"tokenizer_steps": 800, "max_steps": 200, "expert_width": 64}
    shared["tokenizer_batch_size"] = 64
    own = {**shared, "decoding": "strict", "temperatures": {"deterministic": 0.0, "sampled": 1.0}}
    rows = {name: {**row, "settings": own} for name, row in record["results"]["rows"].items()}
    return record | {"results": {"rows": rows}}


FIRST = {"history": 2, "code_smoothing": 0.0, "offset_layers": 0}
"""How light policies of `small` were trained as long as rows had the settings of the last run."""
LATER = {"history": 1, "code_smoothing": 1.0}
"""The same of rows that have settings of their own, before they said this too."""


def _recipes(rows: dict[str, Any]) -> dict[str, Any]:
    """Rows that say the recipe of their policies. `minutes` are in the settings of those alone that
    had none of their own; an offset head is in the name."""
    found = {}
    for name, row in rows.items():
        later = {**LATER, "offset_layers": 3 if ", offset" in name else 0}
        found[name] = {**(FIRST if "minutes" in row["settings"] else later), **row}
    return found


def _recipes_in_tables(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"results": {n: _recipes(rows) for n, rows in record["results"].items()}}


def _recipes_in_rows(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"results": _recipes(record["results"])}


def _policy_table_from_4(record: dict[str, Any]) -> dict[str, Any]:
    """Rows without comparisons with a reference that was measured again since: those whose
    difference is not that of the rates that are stored."""
    scheme, budget = record["settings"]["reference"]
    tables = {}
    for observed, rows in record["results"].items():
        rates = _rates(rows[scheme]) if scheme in rows else {}
        tables[observed] = {
            name: _compared_with(row, rates.get(str(budget))) for name, row in rows.items()
        }
    return record | {"results": tables}


def _rates(row: dict[str, Any]) -> dict[str, float]:
    return {str(budget["budget"]): budget["success"]["rate"] for budget in row["budgets"]}


def _compared_with(row: dict[str, Any], reference: float | None) -> dict[str, Any]:
    """A row with those of its comparisons that are with this rate."""
    kept = {
        budget: pair
        for budget, pair in row.get("against", {}).items()
        if reference is not None
        and abs(_rates(row)[budget] - reference - pair["difference"]) < 1e-9
    }
    own = {name: value for name, value in row.items() if name != "against"}
    return {**own, "against": kept} if kept else own


def _rate_distortion_from_1(record: dict[str, Any]) -> dict[str, Any]:
    """Rows with settings of their own; those of the file were the same in all runs until then."""
    own = {name: record["settings"][name] for name in ("preset", "held_out", "horizon")}
    found = {
        data: {
            name: row if name == "splits" else {**row, "settings": own}
            for name, row in rows.items()
        }
        for data, rows in record["results"].items()
    }
    return record | {"results": found, "settings": {}}


def _prefix_picture_from_1(record: dict[str, Any]) -> dict[str, Any]:
    """The steps of the tokenizer, which was the one that is called long."""
    return record | {"settings": {**record["settings"], "steps": 11_000}}


def _neighbors_from_1(record: dict[str, Any]) -> dict[str, Any]:
    """Solved episodes as text, where version 1 had lists of numbers."""
    for row in record["results"].get("rows", {}).values():
        for rule in row["rules"].values():
            solved = rule["solved"]
            rule["solved"] = {task: "".join(map(str, each)) for task, each in solved.items()}
    return record


def _control_from_1(record: dict[str, Any]) -> dict[str, Any]:
    """Cells by what `auto` was until then: an eighth to a quarter of a chunk."""
    cells = {}
    for key, cell in record["results"]["cells"].items():
        is_old = cell["rule"] == "auto"
        rule = FORMER_AUTO if is_old else cell["rule"]
        cells[f"{cell['row']}/{cell['seed']}/{rule}" if is_old else key] = {**cell, "rule": rule}
    return record | {"results": {"cells": cells}}


def _control_times_from_1(record: dict[str, Any]) -> dict[str, Any]:
    """Rows that say what `oat` took in their run; all were of one run until then.

    A number of tokens takes as long after any number of training steps, so two rows go by the names
    of today; when "auto" stops depends on the training.
    """
    found, names = record["results"], {f"{kind}, 2500 steps": kind for kind in ("acodec", "klt")}
    rows = {}
    for name, row in found.items():
        ms = {b: ms for b, ms in row.items() if name not in names or b != "auto"}
        rows[names.get(name, name)] = {"ms": ms, "reference_ms": found["oat"]["8"]}
    return record | {"results": rows}


def _control_times_from_2(record: dict[str, Any]) -> dict[str, Any]:
    """Rows that say whether the order was another in every round, which none was until then."""
    rows = {name: {**row, "is_shuffled": False} for name, row in record["results"].items()}
    return record | {"results": rows}


UPGRADES = {
    "control": {1: _control_from_1},
    "control_times": {1: _control_times_from_1, 2: _control_times_from_2},
    "neighbors": {1: _neighbors_from_1},
    "policy_table": {
        **{1: _policy_table_from_1, 2: _policy_table_from_2, 3: _recipes_in_tables},
        4: _policy_table_from_4,
    },
    "policy_pusht": {1: _policy_pusht_from_1, 2: _policy_pusht_from_2, 3: _recipes_in_rows},
    "policy_robosuite": {1: _recipes_in_rows},
    "policy_sweep": {1: _recipes_in_tables},
    "prefix_picture": {1: _prefix_picture_from_1},
    "tokenizer_rate_distortion": {1: _rate_distortion_from_1},
    "vlm_expert": {1: _vlm_expert_from_1},
    "vlm_pipeline": {1: _vlm_pipeline_from_1, 2: _vlm_pipeline_from_2, 3: _vlm_pipeline_from_3},
}
"""Benchmarks whose JSON has changed, with the functions that lead on from each older version."""


def keep_apart(is_tiny: bool) -> None:
    """Let a process that only shows that a script runs keep its results away from the stored ones.

    Every script with a tiny scale calls this before it reads or writes a result.
    """
    global RESULTS
    if is_tiny:
        RESULTS = TINY_RESULTS


def write_result(name: str, *, seed: int, settings: dict[str, Any], results: Any) -> Path:
    """Save `results` beside commit, seed, versions and machine."""
    record = {
        "schema": f"oatkit/benchmark/{name}",
        "version": 1 + len(UPGRADES.get(name, {})),
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "seed": seed,
        "settings": settings,
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "results": results,
    }
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"wrote {path}")
    return path


def read_result(name: str) -> dict[str, Any]:
    """What `write_result` saved, brought up to today's version."""
    path = RESULTS / f"{name}.json"
    values, upgrades = json.loads(path.read_text()), UPGRADES.get(name, {})
    schema = f"oatkit/benchmark/{name}"
    return upgraded(values, schema, 1 + len(upgrades), str(path), upgrades)


def read_results(name: str) -> dict[str, Any]:
    """The results that were saved before; empty where there are none."""
    return dict(read_result(name)["results"]) if (RESULTS / f"{name}.json").exists() else {}


def _commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "../src"], capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + (" with changes" if changed.stdout.strip() else "")


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.split(": ")[1] for x in lines if x.startswith("model name")), platform.machine())
