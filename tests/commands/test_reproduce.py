"""`oatkit reproduce` as a user runs it: the list, and every table at the smallest scale."""

from __future__ import annotations

import importlib.util
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import tyro

from oatkit import cli
from oatkit.commands.reproduce import Reproduce
from oatkit.jobs.paper_tables import TABLES
from oatkit.policies import load_policy
from oatkit.storage.records import read_record
from oatkit.types import Reproduction
from tests.jobs.reproduction_places import plane_demonstrations

ROOT = Path(__file__).parents[2]
SOME = {
    "vlm-policies": "paligemma2, oat",
    "co-training": "qwen3-vl, quest",
    "horizons-half": "8 actions, 2 tokens",
    "horizons-fixed": "8 actions, 2 tokens",
    "codebook": "levels 8 6 5",
    "light-policies": "fast",
    "prefix-reconstruction": "oat",
    "tokenizer-comparison": "bin",
    "rate-distortion": "bin",
    "pusht": "oat-pow2",
}
"""One row of tables with many."""
QUICK = ("light-policies", "rate-distortion")
"""Tables that `make test` runs; the others are slow."""


def test_every_table_is_listed_with_a_command_that_parses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    for name, table in TABLES.items():
        assert f"{name}\n  {table.title}. {table.shows}" in shown
    lines = [line.strip() for line in shown.splitlines() if line.startswith("  oatkit reproduce ")]
    assert len(lines) == sum(table.work != "nothing" for table in TABLES.values())
    for line in lines:
        assert tyro.cli(Reproduce, args=shlex.split(line)[2:]).table in TABLES
    for table in TABLES.values():
        for command in table.shown_by:
            assert f"  {command}\n" in shown


@pytest.mark.parametrize("name", [n for n, t in TABLES.items() if t.work == "nothing"])
def test_what_has_nothing_to_measure_says_by_which_commands_it_is_seen(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["reproduce", name]) == 0
    lines = (f"nothing to measure: {TABLES[name].instead}", *TABLES[name].shown_by)
    assert "\n".join(lines) in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    for command in TABLES[name].shown_by:
        program, *words = shlex.split(command)
        if program == "oatkit":
            if "vlm" in words:
                pytest.importorskip("transformers", reason="needs the extra vlm")
            assert cli.main(words) == 0
        else:  # the test of presets runs anyway, and one of the docs writes the report
            flag, module, *paths = words
            assert (program, flag) == ("python", "-m")
            assert importlib.util.find_spec(module)
            assert all((ROOT / path).exists() for path in paths)


@pytest.mark.filterwarnings("default:the policy was trained to generate")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name, table in TABLES.items()
        if table.work != "nothing"
    ],
)
def test_every_table_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if TABLES[name].is_large:
        pytest.importorskip("transformers", reason="needs the extra vlm")
    data = plane_demonstrations(tmp_path, monkeypatch)
    if name == "pusht":
        data = {name: data["metaworld"]}
    given = [word for pair in data.items() for word in ("--data", "=".join(map(str, pair)))]
    rows = SOME.get(name)
    only = ["--only", rows] if rows else []
    out = tmp_path / "out"
    where = ["--scale", "tiny", "--out", str(out), "--workers", "1"]
    assert cli.main(["reproduce", name, *where, *given, *only]) == 0
    shown = capsys.readouterr().out
    record = out / "tiny" / f"{name}.json"
    assert f"wrote {record}\nopen {record.with_suffix('.html')}" in shown
    page = record.with_suffix(".html").read_text()
    report = out / "tiny" / "metaworld" / "compared" / "report.html"
    is_compared = TABLES[name].work == "comparison"
    assert (f"\nopen {report}\n" in shown) == report.exists() == is_compared
    assert ('href="metaworld/compared/report.html"' in page) == is_compared
    for benchmark in TABLES[name].benchmarks if TABLES[name].numbers else ():
        assert f"{benchmark} " in page
        assert f"{benchmark} " in shown
    found = read_record(record, Reproduction)
    assert {n.row for n in found.numbers} == ({rows} if rows else set(TABLES[name].rows))
    assert TABLES[name].title in page


def test_rows_from_images_have_a_record_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = plane_demonstrations(tmp_path, monkeypatch)["doors"]
    out = tmp_path / "out"
    where = ["--scale", "tiny", "--out", str(out), "--workers", "1", "--only", "quest"]
    given = ["--images", "--data", f"metaworld-images={data}"]
    assert cli.main(["reproduce", "light-policies", *where, *given]) == 0
    record = out / "tiny" / "light-policies-images.json"
    assert f"wrote {record}\nopen {record.with_suffix('.html')}" in capsys.readouterr().out
    (number,) = read_record(record, Reproduction).numbers
    assert (number.row, number.place, number.episodes) == ("quest", "metaworld-images", 1)
    (policy,) = (out / "tiny" / "metaworld-images" / "policies").iterdir()
    assert tuple(load_policy(policy).spec.cameras) == ("top",)


def test_robosuite_is_a_further_column_of_the_same_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = plane_demonstrations(tmp_path, monkeypatch)["metaworld"]
    out = tmp_path / "out"
    where = ["--scale", "tiny", "--out", str(out), "--workers", "1", "--only", "quest"]
    for name in ("metaworld", "robosuite"):
        given = ["--env", name, "--data", f"{name}={data}"]
        assert cli.main(["reproduce", "light-policies", *where, *given]) == 0
    found = read_record(out / "tiny" / "light-policies.json", Reproduction)
    assert [number.place for number in found.numbers] == ["metaworld", "robosuite"]
    assert (out / "tiny" / "robosuite" / "policies").is_dir()
    assert "light-robomimic" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("default:the policy was trained to generate")
def test_every_row_beside_the_papers_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = plane_demonstrations(tmp_path, monkeypatch)["metaworld"]
    rows = TABLES["light-policies"].extras
    out = tmp_path / "out"
    short = {name: replace(row, tokenizer_steps=None) for name, row in rows.items()}
    light = replace(TABLES["light-policies"], extras=short)
    monkeypatch.setitem(TABLES, "light-policies", light)
    where = ["--scale", "tiny", "--out", str(out), "--workers", "1", "--data", f"metaworld={data}"]
    both = ["--temperatures", "0", "1", "--seeds", "1"]
    assert cli.main(["reproduce", "light-policies", *where, *both, "--only", *rows]) == 0
    found = read_record(out / "tiny" / "light-policies.json", Reproduction)
    made = {(n.row, n.temperature, n.seed) for n in found.numbers}
    assert made == {(row, temperature, 1) for row in rows for temperature in (0, 1)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--data", "metaworld"), "--data 'metaworld' is no NAME=VALUE"),
        (("--backbone", "=x"), "--backbone '=x' is no NAME=VALUE"),
        (("--scale", "paper"), "name it by --data BENCHMARK=PATH"),
        (("--only", "klt"), "unknown row of ordering 'klt'"),
    ],
)
def test_wrong_flags(
    flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", "ordering", "--out", str(tmp_path), *flags]) == 2
    assert message in capsys.readouterr().err
