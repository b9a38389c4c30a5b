"""Where the numbers of benchmarks go."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record
from oatkit.errors import ArtifactError

BENCHMARKS = Path(record.__file__).parent
WITHOUT_RESULTS = {"control"}
"""Scripts whose tiny scale writes no result."""


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_results_come_back_with_what_they_depend_on() -> None:
    assert record.read_results("speed") == {}
    record.write_result("speed", seed=3, settings={"threads": 2}, results={"ms": 1.5})
    found = record.read_result("speed")
    assert (found["seed"], found["settings"]) == (3, {"threads": 2})
    assert {"cpu", "cores", "python", "torch"} <= set(found["machine"])
    assert len(found["commit"].split()[0]) == 40
    assert record.read_results("speed") == {"ms": 1.5}


def test_an_older_version_is_upgraded_and_a_newer_one_refused(results: Path) -> None:
    found = {"tasks": [{"task": "pusht", "success": {"episodes": 5}}]}
    protocol = {"temperature": 0.0, "top_k": 10, "seed": 0}
    row = {"budgets": [{"budget": 8, **found}, {"budget": None, **found}], "protocol": protocol}
    row |= {"kind": "oat", "tokens": 8}
    light = {"num_tokens": 8, "levels": [8, 5, 5, 5]}
    settings = {"preset": "small", "minutes": 15.0, "episodes": 9, "light": light}
    record.write_result("policy_pusht", seed=0, settings=settings, results={"oat": row})
    path = results / "policy_pusht.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "version": 1}))
    (row,) = record.read_results("policy_pusht").values()
    assert [b["budget"] for b in row["budgets"]] == [8, "auto"]
    assert row["protocol"] == {"seed": 0, "sampling": {"temperature": 0.0, "top_k": 10}}
    assert row["settings"]["episodes"] == 5  # its own, not those of the run that came last
    assert (row["settings"]["preset"], row["settings"]["minutes"]) == ("small", None)
    assert row["settings"]["tokenizer"] == light
    assert (row["history"], row["code_smoothing"], row["offset_layers"]) == (2, 0.0, 0)
    path.write_text(json.dumps({**saved, "version": saved["version"] + 1}))
    with pytest.raises(ArtifactError, match="policy_pusht in version 5"):
        record.read_results("policy_pusht")


def upgraded_from(results: Path, name: str, version: int, settings: Any, found: Any) -> Any:
    record.write_result(name, seed=0, settings=settings, results=found)
    path = results / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
    return record.read_result(name)


def test_times_of_one_run_say_what_the_reference_took(results: Path) -> None:
    timed = {"oat": {"1": 2.0, "8": 4.0, "auto": 3.0}, "klt, 2500 steps": {"8": 5.0, "auto": 1.0}}
    found = upgraded_from(results, "control_times", 1, {}, timed)["results"]
    assert found == {
        "oat": {"ms": timed["oat"], "reference_ms": 4.0, "is_shuffled": False},
        "klt": {"ms": {"8": 5.0}, "reference_ms": 4.0, "is_shuffled": False},
    }


def test_rows_say_their_recipe(results: Path) -> None:
    """Rows of the first preset kept minutes, later ones do not; a head is in the name."""
    later: dict[str, Any] = {"settings": {}, "budgets": []}
    first = {**later, "settings": {"minutes": None}}
    rows = {"oat": first, "quest": later, "oat, offset": later}
    rows["bin"] = {**later, "history": 5}
    settings = {"reference": ["oat", 8]}
    found = upgraded_from(results, "policy_table", 3, settings, {"state": rows})["results"]["state"]
    recipes = {
        name: (row["history"], row["code_smoothing"], row["offset_layers"])
        for name, row in found.items()
    }
    assert recipes == {
        **{"oat": (2, 0.0, 0), "quest": (1, 1.0, 0), "oat, offset": (1, 1.0, 3)},
        "bin": (5, 1.0, 0),
    }


def test_comparisons_with_what_was_measured_again_are_left_out(results: Path) -> None:
    def row(rate: float, difference: float) -> dict[str, Any]:
        budgets = [{"budget": 8, "success": {"rate": rate}}]
        return {"budgets": budgets, "against": {"8": {"difference": difference}}}

    rows = {"oat": row(0.5, 0.0), "quest": row(0.6, 0.6 - 0.5), "bin": row(0.1, 0.1 - 0.6)}
    tables = {"state": rows, "images": {"bin": row(0.1, 0.0)}}
    settings = {"reference": ["oat", 8]}
    found = upgraded_from(results, "policy_table", 4, settings, tables)["results"]
    assert [name for name, own in found["state"].items() if "against" in own] == ["oat", "quest"]
    assert "against" not in found["images"]["bin"], "there is no reference"


def test_rows_have_the_settings_of_their_file(results: Path) -> None:
    settings = {"preset": "small", "held_out": 0.1, "horizon": 32, "num_tokens": 16}
    rows = {"metaworld": {"oat": {"steps": 600}, "splits": {"1": [0.5]}}}
    found = upgraded_from(results, "tokenizer_rate_distortion", 1, settings, rows)["results"]
    own = {"preset": "small", "held_out": 0.1, "horizon": 32}
    assert found == {"metaworld": {"oat": {"steps": 600, "settings": own}, "splits": {"1": [0.5]}}}
    found = upgraded_from(results, "vlm_expert", 1, {}, {"rows": {"a": {"steps": 3}}})["results"]
    assert found["rows"]["a"]["steps"] == 3
    assert found["rows"]["a"]["settings"]["tokenizer_steps"] == 800
    picture = upgraded_from(results, "prefix_picture", 1, {"quantile": 0.9}, {})
    assert picture["settings"] == {"quantile": 0.9, "steps": 11_000}


def test_a_tiny_run_leaves_the_stored_results_alone(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record.write_result("speed", seed=0, settings={}, results={"ms": 1})
    record.keep_apart(False)
    assert record.read_results("speed") == {"ms": 1}
    record.keep_apart(True)
    assert record.read_results("speed") == {}, "finished rows of the stored results are not its own"
    record.write_result("speed", seed=0, settings={}, results={"ms": 2})
    assert record.read_results("speed") == {"ms": 2}
    assert json.loads((results / "speed.json").read_text())["results"] == {"ms": 1}
    assert (tmp_path / record.TINY_RESULTS / "speed.json").exists()


@pytest.mark.parametrize("script", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_with_a_tiny_scale_keeps_its_results_apart(script: Path) -> None:
    text = script.read_text()
    has_scale = re.search(r'"--tiny"|\n    tiny: bool|"--scale"|"--preset"', text)
    if has_scale and "main(" in text and script.stem not in WITHOUT_RESULTS:
        assert "keep_apart(" in text or "parsed(" in text
