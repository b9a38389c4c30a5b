"""The status of every claim is what its JSON says."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import claim_findings as claims
from benchmarks import large_findings, light_findings, made_rows, record, tokenizer_findings
from benchmarks.claims import CLAIMS
from benchmarks.reproduction import deciding_rows, reproduction_page
from oatkit.evaluation.success_statistics import compare_pairs, success_rate
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_KINDS, PAPER_TABLES

PAGE = Path(__file__).parents[2] / "docs/reproduction.md"
STATUSES = (claims.AGREES, claims.DIFFERS, claims.UNSURE, claims.MISSING, "cannot be run here (")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results, empty at first."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def statuses(page: str) -> dict[str, tuple[str, str]]:
    """What the table of claims of a page says: the claim to our numbers and the status."""
    part = page.split("## Claims")[1].split("## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| [")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {says: (ours, status) for _, says, _, ours, _, status in cells}


def test_every_status_of_the_page_is_what_its_json_says() -> None:
    shown = statuses(PAGE.read_text())
    assert shown == {claim.says: (found.ours, found.status) for claim, found in found_now()}
    for claim, found in found_now():
        assert claim.table in PAPER_TABLES
        assert found.status.startswith(STATUSES)
        assert bool(found.ours) == bool(found.source)
        if found.source:
            assert (record.RESULTS / f"{found.source}.json").exists()
    for name in (*PAPER_TABLES, *OWN_TABLES):
        assert f"### {name}\n" in PAGE.read_text()


def test_every_table_that_is_run_has_a_claim() -> None:
    claimed = {claim.table for claim in CLAIMS}
    assert {name for name, table in PAPER_TABLES.items() if table.work != "nothing"} <= claimed
    assert len({claim.says for claim in CLAIMS}) == len(CLAIMS)


def found_now() -> list[tuple[claims.Claim, claims.Found]]:
    return [(claim, claim.find()) for claim in CLAIMS]


def test_a_page_of_other_results_has_other_statuses(results: Path) -> None:
    """The test above can fail: one number of one JSON file changes what the page says."""
    stored = json.loads((PAGE.parents[1] / "benchmarks/results/policy_table.json").read_text())
    pair = stored["results"]["state"]["oat"]["against"]["1"]
    says = "`oat`: 8 tokens succeed more often than 1"
    (results / "policy_table.json").write_text(json.dumps(stored))
    assert statuses(reproduction_page())[says] == statuses(PAGE.read_text())[says]
    pair["low"], pair["high"] = -pair["high"], -pair["low"]
    (results / "policy_table.json").write_text(json.dumps(stored))
    assert statuses(reproduction_page())[says][1] == claims.DIFFERS
    assert statuses(PAGE.read_text())[says][1] == claims.AGREES


def test_nothing_is_claimed_without_results(results: Path) -> None:
    for _, found in found_now():
        assert found.ours == ""
        assert found.status.startswith((claims.MISSING, "cannot be run here ("))


def test_the_page_says_what_cannot_be_compared_and_how_rows_were_made() -> None:
    page = " ".join(PAGE.read_text().split())
    assert "our actions are clipped to [-1, 1]" in page
    assert "The real-robot half of the paper is absent." in page
    tables = [*record.read_results("policy_sweep").values(), record.read_results("policy_pusht")]
    tables += record.read_results("policy_table").values()
    tables.append(record.read_results("policy_robosuite"))
    for label, row in (item for rows in tables for item in rows.items()):
        temperature = row["protocol"]["sampling"]["temperature"]
        recipe = (row["history"], f"{row['code_smoothing']:g}", row["offset_layers"])
        made = (row["tokens"], row["steps"], row["tokenizer_steps"], *recipe, f"{temperature:g}")
        levels = " ".join(map(str, (row["settings"]["tokenizer"] or {}).get("levels", ())))
        cells = f"{f'{levels} ' if levels else ''}| {' | '.join(map(str, made))} |"
        assert f"| `{label}` | {cells}" in page


@pytest.mark.parametrize(
    ("low", "high", "larger", "nothing"),
    [
        (0.01, 0.2, claims.AGREES, claims.UNSURE),
        (0.06, 0.2, claims.AGREES, claims.DIFFERS),
        (-0.2, -0.06, claims.DIFFERS, claims.DIFFERS),
        (-0.04, 0.04, claims.UNSURE, claims.AGREES),
        (-0.2, 0.2, claims.UNSURE, claims.UNSURE),
    ],
)
def test_ends_of_intervals_decide(low: float, high: float, larger: str, nothing: str) -> None:
    assert claims.is_larger(low, high) == larger
    assert claims.is_nothing(low, high) == nothing


def light_row(steps: int, budgets: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A row of the light table whose differences to `oat` have these ends."""
    against = {
        budget: {"difference": (low + high) / 2, "low": low, "high": high, "episodes": 200}
        for budget, (low, high) in budgets.items()
    }
    protocol = {"sampling": {"temperature": 0.0}}
    evaluated = [{"budget": int(budget)} for budget in budgets]
    row = {"steps": steps, "against": against, "protocol": protocol, "budgets": evaluated}
    return {**row, "tokenizer_steps": 0}


def save_light(oat: dict[str, Any], **others: dict[str, Any]) -> None:
    rows = {"state": {"oat": oat, **others}}
    record.write_result("policy_table", seed=0, settings={}, results=rows)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((-0.3, -0.1), claims.AGREES),
        ((0.1, 0.3), claims.DIFFERS),
        ((-0.1, 0.1), claims.UNSURE),
    ],
)
def test_a_status_changes_with_the_json(
    results: Path, ends: tuple[float, float], status: str
) -> None:
    save_light(light_row(2500, {"1": ends}))
    found = light_findings.than_oat("oat", claims.is_larger, budget=1)()
    assert found.status == status
    assert "200 episodes, temperature 0, 2500 steps" in found.ours
    path = results / "policy_table.json"
    assert json.loads(path.read_text())["results"]["state"]["oat"]["steps"] == 2500


def test_rows_that_were_not_trained_alike_are_not_compared(results: Path) -> None:
    save_light(light_row(2500, {}), bin=light_row(226, {"128": (-0.6, -0.5)}))
    found = light_findings.than_oat("bin", claims.is_larger)()
    different = "(not only the tokens differ: steps 2500 and 226)"
    assert found.status == f"{claims.MISSING} {different}"


RECIPE = {
    **{"steps": 2500, "tokenizer_steps": 8000, "batch_size": 64, "history": 1},
    **{"code_smoothing": 1.0, "offset_layers": 0},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"history": 2}, "frames 1 and 2"),
        ({"code_smoothing": 0.0}, "code smoothing 1.0 and 0.0"),
        ({"offset_layers": 3}, "offset layers 0 and 3"),
        ({"tokenizer_steps": 2000}, "tokenizer steps 8000 and 2000"),
        ({"batch_size": 32}, "batch size 64 and 32"),
        ({"history": None}, "frames 1 and not stored"),
        ({"steps": 7, "history": 2}, "steps 2500 and 7; frames 1 and 2"),
    ],
)
def test_rows_of_other_recipes_decide_nothing(
    results: Path, change: dict[str, Any], words: str
) -> None:
    own = {**light_row(2500, {}), **RECIPE}
    other = {**light_row(2500, {"16": (-0.6, -0.5)}), **RECIPE}
    quest = light_findings.than_oat("quest", claims.is_larger)
    save_light(own, quest=other)
    assert quest().status == claims.AGREES
    save_light(own, quest={**other, **change})
    assert quest().status == f"{claims.MISSING} (not only the tokens differ: {words})"
    assert quest().source == "policy_table"


@given(st.lists(st.dictionaries(st.sampled_from(["steps", "frames"]), st.integers(0, 2))))
def test_recipes_are_alike_if_and_only_if_nothing_differs(recipes: list[dict[str, int]]) -> None:
    whole = [{"steps": r.get("steps"), "frames": r.get("frames")} for r in recipes]
    assert (claims.differences(whole) == "") == all(r == whole[0] for r in whole)


def test_fitted_tokenizers_have_no_steps_that_could_differ() -> None:
    assert claims.differences([{claims.FITTED: None}, {claims.FITTED: 800}]) == ""
    assert claims.differences([{claims.FITTED: 10}, {claims.FITTED: 800}]) != ""


def test_seeds_of_a_row_are_compared_together(results: Path) -> None:
    find = light_findings.than_oat("oat", claims.is_larger, budget=1)
    oat = light_row(2500, {"1": (-0.3, -0.1)})
    oat["against"]["1"]["seeds"] = 2
    save_light(oat, **{"oat, seed 1": light_row(2500, {})})
    assert "temperature 0, 2 seeds, 2500 steps" in find().ours
    save_light(oat, **{"oat, seed 1": light_row(100, {})})
    assert find().status.endswith("(not only the tokens differ: steps 2500 and 100)")


def test_ablations_in_closed_loop_decide_too(results: Path) -> None:
    find = light_findings.swept("codebook", "levels 8 6 5", "levels 8 5 5 5", claims.is_larger)
    assert find().status == claims.MISSING
    rows = {
        row: {
            "steps": 100,
            "tokenizer_steps": 50,
            "protocol": {"sampling": {"temperature": 0.0}},
            "budgets": [{"budget": 8, "success": asdict(success_rate(successes, 200))}],
        }
        for row, successes in (("levels 8 6 5", 40), ("levels 8 5 5 5", 120))
    }
    record.write_result("policy_sweep", seed=0, settings={}, results={"codebook": rows})
    assert find().status == claims.AGREES
    assert find().ours == (
        "20 and 60 %: +40 points (+31 to +48), 200 and 200 episodes of 1 and 1 seeds, "
        "temperature 0, 100 steps"
    )


def control_cell(
    row: str, seed: int, successes: dict[int, int], tokenizer_steps: int | None = 8000
) -> dict[str, Any]:
    """A cell of `benchmarks.control` under the paper's protocol, with 200 episodes a budget."""
    rates = [
        {"budget": budget, "success": asdict(success_rate(number, 200))}
        for budget, number in successes.items()
    ]
    made = {"steps": 2500, "tokenizer_steps": tokenizer_steps, "episodes": 50}
    return {"row": row, "seed": seed, "rule": "half", "budgets": rates, **made}


def save_control(*cells: dict[str, Any]) -> None:
    found = {f"{cell['row']}/{cell['seed']}/{cell['rule']}": cell for cell in cells}
    record.write_result("control", seed=0, settings={}, results={"cells": found})


def test_rows_of_control_come_before_the_light_table(results: Path) -> None:
    save_light(light_row(2500, {"1": (-0.3, -0.1)}), quest=light_row(2500, {"16": (-0.3, -0.1)}))
    quest = light_findings.than_oat("quest", claims.is_larger)
    assert (quest().status, quest().source) == (claims.AGREES, "policy_table")
    oat = [control_cell("oat", seed, {8: 100}) for seed in range(3)]
    save_control(*oat)
    assert quest().source == "policy_table", "one of the two is not in control"
    save_control(*oat, control_cell("quest", 0, {16: 140}))
    assert (quest().status, quest().source) == (claims.DIFFERS, "control")
    assert quest().ours == (
        "70 and 50 %: -20 points (-27 to -12), 200 and 600 episodes of 1 and 3 seeds, "
        "temperature 0, 2500 steps"
    )
    one = light_findings.than_oat("oat", claims.is_larger, budget=1)
    assert one().source == "policy_table", "control has no such budget"
    save_control(*(control_cell("oat", seed, {1: 40, 8: 100}) for seed in range(3)))
    assert (one().status, one().source) == (claims.AGREES, "control")
    corrected = [
        {**control_cell("oat", seed, {1: 100, 8: 100}), "offset_layers": 3} for seed in range(3)
    ]
    save_control(*corrected)
    assert one().source == "policy_table", "an offset head is not the paper's"


def test_tokenizers_of_different_steps_are_not_compared(results: Path) -> None:
    quest = light_findings.than_oat("quest", claims.is_larger)
    own = control_cell("oat", 0, {8: 100})
    save_control(own, control_cell("quest", 0, {16: 20}, tokenizer_steps=2000))
    assert quest().status.endswith("(not only the tokens differ: tokenizer steps 2000 and 8000)")
    save_control(own, control_cell("bin", 0, {128: 20}, tokenizer_steps=None))
    assert light_findings.than_oat("bin", claims.is_larger)().status == claims.AGREES


def test_rows_of_control_keep_their_names_and_levels(results: Path) -> None:
    """What the page calls a row is found in the JSON by that name."""
    light, recipe = {"levels": [8, 5, 5, 5]}, {"history": 1, "code_smoothing": 1.0}
    cells = [
        {**control_cell(row, 0, {8: 100}), **recipe, "offset_layers": 0, "kind": kind}
        for row, kind in (("oat, no offset", "oat"), ("acodec, no offset", "acodec"))
    ]
    cells[0]["budgets"][0]["tasks"] = [{"task": "box-close", "success": {"episodes": 50}}]
    cells[1]["budgets"][0]["tasks"] = [{"task": "box-close", "success": {"episodes": 50}}]
    found = {f"{cell['row']}/0/half": cell for cell in cells}
    record.write_result("control", seed=0, settings={"light": light}, results={"cells": found})
    page = reproduction_page()
    assert "| control | `oat, no offset`, seeds 0 | 8 5 5 5 | 8 | 2500 | 8000 | 1 | 1 | 0 |" in page
    assert "| control | `acodec, no offset`, seeds 0 | | 8 |" in page
    cells[0]["levels"] = [4, 4]
    record.write_result("control", seed=0, settings={"light": light}, results={"cells": found})
    assert "seeds 0 | 4 4 | 8 |" in reproduction_page()
    assert light_findings.controlled("oat") is not None


def test_every_row_of_control_on_the_page_is_in_the_json() -> None:
    cells = record.read_results("control")["cells"].values()
    named = re.findall(r"\| control \| `(.+?)`, seeds ([\d, ]+) \|", PAGE.read_text())
    assert named
    for row, seeds in named:
        found = {(cell["row"], cell["seed"]) for cell in cells if cell["rule"] == "half"}
        assert {(row, int(seed)) for seed in seeds.split(",")} <= found


def tasks(**counts: tuple[int, int]) -> dict[str, Any]:
    """Results of a budget: task to successes and episodes."""
    rates = {task: asdict(success_rate(*count)) for task, count in counts.items()}
    total = success_rate(*(sum(n) for n in zip(*counts.values(), strict=True)))
    shown = [{"task": task, "success": rate} for task, rate in rates.items()]
    return {"tasks": shown, "success": asdict(total)}


def robosuite_row(budgets: list[dict[str, Any]]) -> dict[str, Any]:
    row = {"steps": 100, "tokenizer_steps": 50, "protocol": {"sampling": {"temperature": 0.0}}}
    return {**row, "budgets": budgets, "settings": {"tokenizer": None}, "tokens": 8}


def test_budgets_on_robosuite_are_compared_on_the_episodes_that_both_have(results: Path) -> None:
    pair = asdict(compare_pairs("1", "8", [(False, True)] * 9 + [(True, True)] * 3))
    one, eight = tasks(lift=(18, 20), can=(0, 10)), tasks(lift=(10, 10), can=(2, 10))
    row = robosuite_row([{"budget": 1, **one}, {"budget": 8, **eight}])
    oat = {**row, "against_largest": [pair]}
    find = light_findings.on_robosuite("oat", claims.is_larger, budget=1)
    assert find().status == claims.MISSING
    record.write_result("policy_robosuite", seed=0, settings={}, results={"oat": oat})
    assert find().status == claims.AGREES
    low, high = 100 * pair["low"], 100 * pair["high"]
    assert find().ours.startswith(
        f"+75 points ({low:+.0f} to {high:+.0f}), 12 episodes that both have, seeds: 1,"
    )
    rows = {"oat": oat, "oat, seed 1": {**oat, "against_largest": []}}
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find() == claims.NOT_MEASURED, "one of the seeds has no such comparison"
    rows["oat, seed 1"] = oat
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert "24 episodes that both have, seeds: 2," in find().ours


def test_other_mixes_of_tasks_decide_nothing(results: Path) -> None:
    oat = robosuite_row([{"budget": 8, **tasks(lift=(9, 10), can=(9, 10))}])
    same = robosuite_row([{"budget": 16, **tasks(lift=(0, 20), can=(0, 20))}])
    other = robosuite_row([{"budget": 16, **tasks(lift=(0, 10), can=(0, 30))}])
    find = light_findings.on_robosuite("quest", claims.is_larger)
    rows = {"oat": oat, "quest": same}
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find().status == claims.AGREES
    rows["quest"] = other
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find().status.endswith("tasks 75 % can, 25 % lift and 50 % can, 50 % lift)")


def test_numbers_of_episodes_are_those_that_ran() -> None:
    even = [tasks(lift=(1, 10), can=(2, 10))] * 2
    assert made_rows.episodes(even) == "10"
    uneven = [tasks(can=(0, 10), lift=(7, 20)), tasks(can=(0, 10), lift=(7, 18))]
    assert made_rows.episodes(uneven) == "can 10, lift 20 / 18"
    assert "| can 10, lift 20 / 20 / 18 / 10, square 10 |" in PAGE.read_text()


@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    )
)
def test_pooled_differences_are_means_over_episodes(each: list[list[tuple[bool, bool]]]) -> None:
    pairs = [asdict(compare_pairs("1", "8", one)) for one in each]
    change, low, high = claims.pooled_difference(pairs)
    every = [pair for one in each for pair in one]
    assert change == pytest.approx(sum(b - a for a, b in every) / len(every))
    assert low <= change <= high
    if len(pairs) == 1:
        assert (low, high) == pytest.approx((pairs[0]["low"], pairs[0]["high"]))


def test_rows_of_robosuite_decide(results: Path) -> None:
    find = light_findings.on_robosuite("quest", claims.is_larger)
    assert find().status == claims.MISSING
    rows = {
        name: {
            **{"steps": 100, "tokenizer_steps": 50},
            "protocol": {"sampling": {"temperature": 0.0}},
            "budgets": [{"budget": 8, "success": asdict(success_rate(successes, 150))}],
        }
        for name, successes in (("oat", 120), ("quest", 60))
    }
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find().status == claims.AGREES


def rate_distortion(errors: dict[str, dict[str, list[float]]]) -> None:
    found = {
        data: {
            kind: {
                "steps": 10,
                "budgets": [{"mse": error, "tokens": 16} for error in values],
            }
            for kind, values in kinds.items()
        }
        for data, kinds in errors.items()
    }
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=found)


def test_every_dataset_decides_on_errors(results: Path) -> None:
    falling, rising = [3.0, 2.0, 1.0], [3.0, 1.0, 2.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    assert tokenizer_findings.falls("oat")().status == claims.AGREES
    assert tokenizer_findings.tracks().status == claims.AGREES
    rate_distortion(
        {
            "metaworld": {"oat": falling, "oat-pow2": falling},
            "pusht": {"oat": rising, "oat-pow2": [3.0, 1.3, 2.0]},
        }
    )
    assert tokenizer_findings.falls("oat")().status == claims.DIFFERS
    assert "it falls on MetaWorld" in tokenizer_findings.falls("oat")().ours
    assert tokenizer_findings.tracks().status == claims.DIFFERS
    assert "1.30 on PushT (10 steps)" in tokenizer_findings.tracks().ours
    assert tokenizer_findings.ordered().status == claims.DIFFERS


def test_only_oat_is_known_to_be_ordered(results: Path) -> None:
    falling = [3.0, 2.0, 1.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    found = tokenizer_findings.ordered()
    assert found.ours.endswith("fall with every budget on MetaWorld (10 steps)")
    assert found.status.startswith(f"{claims.MISSING} (prefixes of `fast`")


def test_errors_of_other_steps_do_not_track(results: Path) -> None:
    falling = [3.0, 2.0, 1.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    stored = record.read_results("tokenizer_rate_distortion")
    stored["metaworld"]["oat"]["steps"] = 900
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=stored)
    assert tokenizer_findings.tracks().status.endswith("MetaWorld (900 and 10 steps))")


def test_kinds_are_compact_on_every_dataset(results: Path) -> None:
    def save(**tokens: float) -> None:
        rows = {
            data: {
                kind: {"steps": 10, "budgets": [{"mse": 1.0, "tokens": count}]}
                for kind, count in {
                    **dict.fromkeys(tokenizer_findings.KINDS, 16),
                    "bin": 64,
                }.items()
            }
            for data in ("metaworld", "pusht")
        }
        for data, count in tokens.items():
            rows[data]["fast, fitted"]["budgets"][0]["tokens"] = count
        record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=rows)

    save()
    assert tokenizer_findings.compact().status == claims.AGREES
    assert "tokens on MetaWorld; `bin` 64," in tokenizer_findings.compact().ours
    save(pusht=33.0)
    assert tokenizer_findings.compact().status == claims.DIFFERS


def test_one_sequence_that_does_not_decode_is_enough(results: Path) -> None:
    def status() -> str:
        settings = {"preset": "tiny", "steps": 4}
        record.write_result("decodability", seed=0, settings=settings, results=rows)
        return tokenizer_findings.decodes().status

    rows = {kind: {"tried": 9, "decoded": 9} for kind in PAPER_KINDS}
    rows["fast"] = {"tried": 9, "decoded": 8}
    assert status() == claims.AGREES
    rows["oat"]["decoded"] = 8
    assert status() == claims.DIFFERS
    del rows["oat"]
    assert status() == f"{claims.MISSING} (not all kinds were tried)"


def test_calls_are_those_that_the_paper_lists(results: Path) -> None:
    def row(calls: dict[int, float], tokens: float = 0.0) -> dict[str, Any]:
        budgets = [
            {"budget": budget, "calls": number, "tokens": tokens or budget}
            for budget, number in calls.items()
        ]
        return {"budgets": budgets, "protocol": {"horizon": 32}}

    def status() -> str:
        record.write_result("policy_table", seed=0, settings={}, results={"state": rows})
        return light_findings.calls_of_schemes().status

    rows = {"bin": row({128: 32.0}), "oat-pow2": row({1: 1.0, 8: 4.0})}
    assert status() == f"{claims.MISSING} (no policy on `quest` and `acodec` and `oat` and `fast`)"
    rows |= {"quest": row({16: 16.0}), "acodec": row({8: 1.0}), "oat": row({8: 8.0})}
    assert status() == f"{claims.MISSING} (no policy on `fast`)"
    rows["fast"] = row({128: 21.0}, tokens=20.5)
    assert status() == claims.AGREES
    rows["fast"] = row({128: 21.0}, tokens=17.5)
    assert status() == claims.DIFFERS
    del rows["fast"]
    rows["oat-pow2"] = row({1: 1.0, 8: 5.0})
    assert status() == claims.DIFFERS, "one that is not as listed is enough"


def pipeline_row(ways: dict[str, int], **settings: Any) -> dict[str, Any]:
    """A row of the pipeline: way of acting to successes of 60 episodes."""
    made = {"steps": 2000, "batch_size": 32, "tokenizer_steps": 800, "tokens": 8, "horizon": 16}
    made |= {"demonstrations": 100, "image_size": 64, "temperature": 0.0, "decoding": "relaxed"}
    loops = {way: {"all": asdict(success_rate(number, 60))} for way, number in ways.items()}
    return {"closed loop": loops, "settings": {**made, **settings}}


def save_pipeline(**rows: dict[str, Any]) -> None:
    found = {f"vlm-ar/{kind.replace('_', '-')}/paligemma2": row for kind, row in rows.items()}
    record.write_result("vlm_pipeline", seed=0, settings={}, results={"policies": found})


def test_vision_language_policies_decide_if_they_were_trained_alike(results: Path) -> None:
    quest = large_findings.generates("paligemma2", "quest", claims.is_larger)
    own = pipeline_row({"as it is": 50})
    save_pipeline(oat=own, quest=pipeline_row({"as it is": 10}))
    assert quest().status == claims.AGREES
    save_pipeline(oat=own, quest=pipeline_row({"as it is": 10}, tokenizer_steps=9, horizon=32))
    assert quest().status.endswith("tokenizer steps 9 and 800; actions 32 and 16)")
    fast = large_findings.generates("paligemma2", "fast", claims.is_larger)
    save_pipeline(oat=own, fast=pipeline_row({"as it is": 10}, tokenizer_steps=0))
    assert fast().status == claims.AGREES
    save_pipeline(oat=own, fast=pipeline_row({"as it is": 10}, decoding="strict"))
    assert fast() == claims.NOT_MEASURED, "the paper mends sequences"


def test_success_rises_with_tokens_if_all_are_better_than_one(results: Path) -> None:
    rises = large_findings.rises("paligemma2", claims.is_larger)
    save_pipeline(oat=pipeline_row({"as it is": 50}))
    assert rises() == claims.NOT_MEASURED
    save_pipeline(oat=pipeline_row({"as it is": 50, "budget 1": 10}))
    assert rises().status == claims.AGREES
    save_pipeline(oat=pipeline_row({"as it is": 10, "budget 1": 50}))
    assert rises().status == claims.DIFFERS


@pytest.mark.parametrize(
    ("statuses", "joined"),
    [
        ((claims.AGREES, claims.AGREES), claims.AGREES),
        ((claims.AGREES, claims.UNSURE), claims.UNSURE),
        ((claims.UNSURE, claims.DIFFERS), claims.DIFFERS),
        ((claims.MISSING, claims.AGREES), claims.MISSING),
    ],
)
def test_findings_together(statuses: tuple[str, ...], joined: str) -> None:
    found = [claims.Found("1 %", status, "control") for status in statuses]
    both = large_findings.together(*(lambda one=one: one for one in found))()
    assert both == claims.Found("1 %; 1 %", joined, "control")
    assert large_findings.together(lambda: claims.NOT_MEASURED)() == claims.NOT_MEASURED


def test_the_page_says_what_a_command_trains_otherwise() -> None:
    page = PAGE.read_text()
    part = page.split("### co-training\n")[1].split("### ")[0]
    assert "| | `vlm_expert` | this command |" in part
    assert "| actions of a chunk | 16 | 32 |" in part
    assert "| tokens of `oat` | 8 | 16 |" in part
    assert "1000 of the expert alone" in part
    light = page.split("### light-policies\n")[1].split("### ")[0]
    assert "this command |" not in light, "the same code makes both"


def test_the_page_says_which_rows_decide() -> None:
    page = PAGE.read_text()
    for table in ("horizons-half", "horizons-fixed", "codebook"):
        rows = deciding_rows(table)
        assert set(rows) < set(PAPER_TABLES[table].rows) or table == "codebook"
        only = " ".join(f'"{row}"' for row in rows)
        assert f"oatkit reproduce {table} --only {only}\n" in page
        assert f"benchmarks.policy_sweep --tables {table} --only {only}\n" in page


def test_independent_differences_are_newcombes() -> None:
    """The example of Newcombe (1998): 56 of 70 against 48 of 80."""
    first, second = (asdict(success_rate(*counts)) for counts in ((48, 80), (56, 70)))
    change, low, high = claims.difference(first, second)
    assert (round(change, 4), round(low, 4), round(high, 4)) == (0.2, 0.0524, 0.3339)
