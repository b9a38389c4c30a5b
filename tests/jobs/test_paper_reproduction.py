"""Tables of the paper made again, at the smallest scale in a fast simulator."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.errors import ArtifactError, OatkitError
from oatkit.evaluation.success_statistics import success_rate
from oatkit.jobs import row_runs
from oatkit.jobs.paper_reproduction import plan_reproduction, record_path, reproduce
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.reproduction_scales import SCALES
from oatkit.storage.records import read_record, write_record
from oatkit.tokenizers.fast import published_digest
from oatkit.types import (
    BenchmarkEvaluation,
    BenchmarkPart,
    ReproducedNumber,
    Reproduction,
    TaskResult,
)
from tests.jobs.reproduction_places import plane_demonstrations


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    return plane_demonstrations(tmp_path, monkeypatch)


def test_a_table_goes_on_row_by_row_and_shares_what_was_trained(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    real = row_runs.train_policy

    def counted(*args: Any, **options: Any) -> Any:
        trained.append(args[3].name)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(row_runs, "train_policy", counted)
    out, how = tmp_path / "out", {"scale": "tiny", "data": data, "workers": 1}
    rows = ("oat", "quest")
    with pytest.raises(KeyboardInterrupt):
        reproduce("light-policies", out, only=rows, **how)
    record = reproduce("light-policies", out, only=rows, **how)
    assert [(n.row, n.budget) for n in record.numbers] == [
        *(("oat", budget) for budget in (1, 2, 4, 8)),
        ("quest", None),
    ]
    for number in record.numbers:
        assert (number.place, number.steps, number.temperature) == ("metaworld", 2, 0)
        assert number.low is not None
        assert number.low <= number.value <= number.high
        assert number.paper is None  # the paper measured other data
    assert len(trained) == 3  # one of them was stopped
    shared = reproduce("ordering", out, only=["oat"], **how)
    assert len(trained) == 3
    assert [n.value for n in shared.numbers] == [n.value for n in record.numbers[:4]]
    assert read_record(record_path(record, out), Reproduction) == record
    message = r"oat on metaworld, seed 0, temperature 0 made with another --steps \(was 2, now 3\)"
    with pytest.raises(OatkitError, match=message):
        reproduce("ordering", out, only=["oat"], steps=3, **how)


def test_other_episodes_are_run_and_replace_the_numbers(
    data: dict[str, Path], tmp_path: Path
) -> None:
    how: dict[str, Any] = {"scale": "tiny", "data": data, "workers": 1, "only": ["quest"]}
    out = tmp_path / "out"
    (one,) = reproduce("light-policies", out, **how).numbers
    (three,) = reproduce("light-policies", out, episodes=3, **how).numbers
    assert (one.episodes, three.episodes) == (1, 3)
    assert three.high - three.low < one.high - one.low
    (again,) = reproduce("light-policies", out, **how).numbers
    assert again == one  # of the first episodes, though the folder has more


def test_other_demonstrations_are_never_taken_for_those_that_are_named(
    data: dict[str, Path], tmp_path: Path
) -> None:
    """Neither by the record of a table nor by tables that share what was trained."""
    how: dict[str, Any] = {"scale": "tiny", "workers": 1, "only": ["oat"]}
    out, other = tmp_path / "out", {"metaworld": data["doors"]}
    for table in ("light-policies", "rate-distortion"):
        reproduce(table, out, data=data, **how)
        with pytest.raises(OatkitError, match=r"made with another --data \(was \w+, now \w+\): u"):
            reproduce(table, out, data=other, **how)
    with pytest.raises(ArtifactError, match=r"was trained on other demonstrations than .*doors: n"):
        reproduce("ordering", out, data=other, **how)
    record_path(
        Reproduction("rate-distortion", {"scale": "tiny", "images": False}, {}), out
    ).unlink()
    with pytest.raises(ArtifactError, match=r"was trained on other demonstrations than .*doors: n"):
        reproduce("rate-distortion", out, data=other, **how)


def test_another_backbone_is_another_policy(data: dict[str, Path], tmp_path: Path) -> None:
    how: dict[str, Any] = {"scale": "tiny", "data": data, "only": ["paligemma2, quest"]}
    usual = plan_reproduction("vlm-policies", tmp_path, **how)
    named = plan_reproduction("vlm-policies", tmp_path, backbones={"paligemma2": "x/y"}, **how)
    row, (place,) = usual.table.rows["paligemma2, quest"], usual.places
    assert usual.runs.policy_dir(row, place, 0) != named.runs.policy_dir(row, place, 0)
    (cell,) = usual.cells()
    number = ReproducedNumber(
        *(cell.name, None, place.name, 50.0, 40.0, 60.0, None, 2, 0.0),
        episodes=1,
        settings=usual.settings(cell),
    )
    path = tmp_path / "record.json"
    write_record(path, replace(usual.begun, numbers=(number,)))
    assert usual.finish(path).numbers == (number,)
    message = (
        r"made with another --backbone \(was random weights, now x/y\): use the same, or anoth"
    )
    with pytest.raises(OatkitError, match=message):
        named.finish(path)


def test_seeds_and_temperatures_are_numbers_of_one_record(
    data: dict[str, Path], tmp_path: Path
) -> None:
    out, how = tmp_path / "out", {"scale": "tiny", "data": data, "workers": 1}
    reproduce("pusht", out, only=["quest"], **(how | {"data": {"pusht": data["metaworld"]}}))
    reproduce("light-policies", out, only=["quest"], **how)
    record = reproduce(
        "light-policies", out, only=["quest"], temperatures=(0, 1), seeds=(0, 3), **how
    )
    assert [(n.seed, n.temperature, n.episodes) for n in record.numbers] == [
        *((0, 0, 1), (0, 1, 1), (3, 0, 1), (3, 1, 1)),
    ]
    place = out / "tiny" / "metaworld"
    assert len(list(place.glob("policies/*"))) == 2
    assert len(list(place.glob("tokenizers/*"))) == 1
    assert read_record(out / "tiny" / "pusht.json", Reproduction).numbers[0].place == "pusht"


def test_errors_of_tokenizers(data: dict[str, Path], tmp_path: Path) -> None:
    how: dict[str, Any] = {"scale": "tiny", "data": data}
    rows = ["oat", "klt, scalar cells"]
    record = reproduce("rate-distortion", tmp_path / "out", only=rows, **how)
    assert [(n.row, n.budget) for n in record.numbers[:5]] == [("oat", k) for k in (1, 2, 4, 8, 16)]
    assert {(n.steps, n.low, n.temperature) for n in record.numbers[:5]} == {(4, None, None)}
    assert {n.steps for n in record.numbers[5:]} == {0}
    compared = reproduce("prefix-reconstruction", tmp_path / "out", only=["oat"], **how)
    assert [n.value for n in compared.numbers] == pytest.approx(
        [n.value for n in record.numbers[:5]]
    )  # the same recipe and seed, in a folder with a report
    assert (tmp_path / "out" / "tiny" / "metaworld" / "compared" / "report.html").exists()


def test_a_published_fast_is_compared_too(data: dict[str, Path], tmp_path: Path) -> None:
    how: dict[str, Any] = {"scale": "tiny", "data": data, "only": ["fast"]}
    out = tmp_path / "out"
    fitted = reproduce("tokenizer-comparison", out, **how)
    artifact = out / "tiny/metaworld/compared/fast"
    published = shutil.copytree(artifact, tmp_path / "published")
    facts = json.loads((published / "processor_config.json").read_text())
    (published / "processor_config.json").write_text(json.dumps(facts | {"scale": 5.0}))
    with pytest.raises(ArtifactError, match=r"made with another published \(was False, now "):
        reproduce("tokenizer-comparison", out, published=published, **how)
    taken = reproduce("prefix-reconstruction", out, published=published, **how)
    assert taken.settings["published"] == published_digest(published)
    assert taken.numbers[0].value > fitted.numbers[0].value  # its steps are twice as coarse


def test_the_papers_numbers_stand_beside_those_of_its_benchmarks(
    data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def fake(policy: Path, benchmark: str, **how: Any) -> BenchmarkEvaluation:
        asked.append({"benchmark": benchmark, **how})
        rate = success_rate(13, 50)
        parts = (BenchmarkPart("all", (TaskResult("t", rate, None),), rate),)
        settings = {"budget": how["budget"]}
        return BenchmarkEvaluation(
            "p", benchmark, settings, {}, parts=parts, mean_success=rate.rate
        )

    monkeypatch.setattr(row_runs, "evaluate_benchmark", fake)
    tiny = SCALES["tiny"]
    monkeypatch.setitem(
        SCALES, "paper", type(tiny)("tiny", "tiny", 50, 1.0, 0, tiny.tokenizer, tiny.policy)
    )
    record = reproduce(
        "light-policies",
        tmp_path / "out",
        scale="paper",
        only=["oat"],
        data={"light-metaworld": data["metaworld"]},
    )
    found = {n.budget: (n.paper, n.verdict) for n in record.numbers}
    assert found[8] == (24.4, "agrees")  # 26 % of 50 episodes
    assert found[1] == (11.3, "does not")
    assert {call["benchmark"] for call in asked} == {"light-metaworld"}
    assert [call["budget"] for call in asked] == [1, 2, 4, 8]
    assert all(call["episodes"] == 50 for call in asked)
    np.testing.assert_allclose([n.value for n in record.numbers], 26.0)


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(OatkitError, match="method has nothing to measure: docs/concepts"):
        reproduce("method", tmp_path)
    with pytest.raises(ValueError, match="your copy of the human demonstrations"):
        reproduce("pusht", tmp_path)
    with pytest.raises(ValueError, match="unknown row of ordering 'klt'"):
        reproduce("ordering", tmp_path, only=["klt"])
    assert paper_table("ordering").row_names == ("oat", "oat, no nesting")
