"""`oatkit tokenizer compare`, as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit import cli
from oatkit.jobs import tokenizer_comparison
from oatkit.jobs.tokenizer_training import TokenizerTraining
from oatkit.measure.reports.comparison_report import write_comparison_report
from oatkit.storage.records import record_from_json
from oatkit.tokenizers import load_tokenizer
from oatkit.tokenizers.corrected import Corrected
from oatkit.types import TokenizerComparison
from tests.jobs.walks import write_walks
from tests.measure.reports.pages import Page
from tests.policies import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_walks(tmp_path_factory.mktemp("data") / "walks.npz", 70)


@pytest.fixture(autouse=True)
def _brief_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)


@pytest.fixture
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not look at it: drawing takes longer than everything else."""
    monkeypatch.setattr(
        "oatkit.measure.reports.comparison_report.write_comparison_report", lambda *_: []
    )


def compare(data: Path, out: Path, *flags: str) -> int:
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny", "--horizon", "8")
    sizes = ("--num-tokens", "4", "--levels", "5", "4")
    steps = () if "--minutes" in flags else ("--steps", "4")
    return cli.main(["tokenizer", "compare", *shared, *sizes, *steps, *flags])


def read(out: Path) -> TokenizerComparison:
    return record_from_json(TokenizerComparison, json.loads((out / "comparison.json").read_text()))


@pytest.fixture(scope="module")
def compared(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compared") / "c"
    assert compare(data, out) == 0
    return out


def test_the_report_has_every_section_and_no_reference_outside(data: Path, compared: Path) -> None:
    text = (compared / "report.html").read_text()
    titles = re.findall("<h2>(.*?)</h2>", text)
    assert titles == [
        *("In short", "Error against tokens and bits", "A chunk token by token"),
        *("What each token tells", "Errors per dimension", "Vocabulary", "Training", "Prefix lab"),
        *("In numbers", "How this was made"),
    ]
    assert text.rindex("<svg") < text.index("<table")
    assert text.count('role="img" aria-label="') == text.count("<svg")
    assert f"oatkit tokenizer compare --data {data} --out {compared} --preset tiny" in text
    for name in ("torch", "split_seed", "fingerprint"):
        assert f"<td>{name}</td>" in text
    page = Page(text)
    assert page.open == []
    assert [a for a in page.addresses if not a.startswith("#")] == []
    targets = set(re.findall(r'id="([^"]+)"', text))
    assert {a[1:] for a in page.addresses} <= targets
    assert "http" not in text
    assert "url(http" not in text
    assert "@import" not in text
    assert text.count("<svg") == text.count("<figcaption>") == 8
    assert "prefers-color-scheme: dark" in text
    for kind in ("oat", "oat-pow2", "bin", "fast", "quest", "acodec", "klt"):
        assert f"<td>{kind}</td>" in text


def test_the_report_is_drawn_from_what_is_on_disk_alone(compared: Path) -> None:
    names = ("report.html", "rate_distortion.png")
    before = [(compared / name).read_bytes() for name in names]
    write_comparison_report(read(compared), compared)
    assert [(compared / name).read_bytes() for name in names] == before


def test_the_record_is_whole_and_comes_back_the_same(compared: Path) -> None:
    found = read(compared)
    assert (found.schema, found.version) == ("oatkit/tokenizer-comparison", 4)
    assert json.loads((compared / "comparison.json").read_text()) == json.loads(
        json.dumps(asdict(found))
    )
    assert [k.measurement.kind for k in found.kinds] == [
        *("oat", "oat-pow2", "bin", "fast", "quest", "acodec", "klt")
    ]
    learned = ("oat", "oat-pow2", "quest", "acodec")
    assert found.steps == dict.fromkeys(("bin", "fast", "klt"), 0) | dict.fromkeys(learned, 4)
    by_kind = {k.measurement.kind: k for k in found.kinds}
    for name, kind in by_kind.items():
        assert load_tokenizer(compared / name).kind == name
        assert (kind.allocation is not None) == (name in ("oat", "oat-pow2", "klt"))
        if kind.allocation is not None:
            a = kind.allocation
            assert a.expected_error == pytest.approx(a.expanded_error, rel=1e-5)
            assert {(r.sample, r.budget) for r in kind.reconstructions} == {
                (sample, budget) for sample in range(3) for budget in (1, 2, 4)
            }
            assert np.shape(kind.reconstructions[0].actions) == (8, 3)
    assert np.shape(found.samples) == (3, 8, 3)
    assert [p.name for p in sorted(compared.glob("*.png"))] == [
        *("allocation.png", "dimensions.png", "prefixes-klt.png", "prefixes-oat-pow2.png"),
        *("prefixes-oat.png", "rate_distortion.png", "training.png", "vocabulary.png"),
    ]


def test_the_properties_are_those_of_the_paper_where_training_does_not_matter(
    compared: Path,
) -> None:
    found = {k.measurement.kind: k.properties for k in read(compared).kinds}
    assert {k for k, p in found.items() if p.compact.holds} == {
        *("oat", "oat-pow2", "quest", "acodec", "klt"),
        *(["fast"] if found["fast"].compact.holds else []),
    }
    assert [k for k, p in found.items() if not p.total.holds] == ["fast"]
    assert {k for k, p in found.items() if p.block_compatible.holds} == {
        *("oat-pow2", "bin", "acodec")
    }
    ordered = {k: p.ordered.holds for k, p in found.items()}
    assert (ordered["bin"], ordered["quest"], ordered["acodec"]) == (False, False, None)
    assert (ordered["klt"], ordered["fast"]) == (True, True)
    assert found["bin"].compact.evidence == "24 tokens for 24 numbers (100%)"


@pytest.mark.usefixtures("_no_report")
def test_the_same_command_skips_what_is_done_and_adds_what_is_missing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(data, tmp_path / "c", "--kinds", "klt", "bin") == 0
    first = capsys.readouterr().out
    assert "bin (2 of 2)" in first
    assert "fitting klt" in first
    assert "bits   entropy" in first
    assert f"open {tmp_path / 'c/report.html'}" in first
    assert "next: oatkit tokenizer sweep --data" in first
    before = (tmp_path / "c/klt/model.safetensors").stat().st_mtime_ns
    assert compare(data, tmp_path / "c", "--kinds", "klt", "oat") == 0
    again = capsys.readouterr().out
    assert "fitting klt" not in again
    assert "training oat" in again
    assert (tmp_path / "c/klt/model.safetensors").stat().st_mtime_ns == before
    assert [k.measurement.kind for k in read(tmp_path / "c").kinds] == ["oat", "bin", "klt"]


@pytest.mark.usefixtures("_no_report")
def test_a_stopped_kind_goes_on_from_its_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--kinds", "oat", "--steps", "30")
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert compare(data, whole, *flags) == 0
    real = tokenizer_comparison.train_tokenizer

    def killed(*args: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr("oatkit.train.loop.TrainingRun.do_step", dies_after(25))
            return real(*args, **options)

    monkeypatch.setattr(tokenizer_comparison, "train_tokenizer", killed)
    assert compare(data, halves, *flags) == 2
    assert not (halves / "oat/config.json").exists()
    monkeypatch.setattr(tokenizer_comparison, "train_tokenizer", real)
    assert compare(data, halves, *flags) == 0
    weights = [(out / "oat/model.safetensors").read_bytes() for out in (whole, halves)]
    assert weights[0] == weights[1]


def dies_after(steps: int) -> Any:
    from oatkit.train.loop import TrainingRun

    real = TrainingRun.do_step

    def do_step(self: Any, step: int) -> Any:
        if step == steps:
            raise OSError("the power went out")
        return real(self, step)

    return do_step


@pytest.mark.usefixtures("_no_report")
def test_other_settings_are_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c"
    assert compare(data, out, "--kinds", "bin") == 0
    assert compare(data, out, "--kinds", "bin", "--horizon", "4") == 2
    err = capsys.readouterr().err
    assert "comparison.json was made with another --horizon (was 8, now 4)" in err
    assert "use the same options, another --out, or remove it" in err
    (out / "comparison.json").unlink()
    assert compare(data, out, "--kinds", "bin", "--horizon", "4") == 2
    err = capsys.readouterr().err
    assert f"{out / 'bin'} holds an artifact, but {out / 'comparison.json'} does not say" in err
    assert compare(data, tmp_path / "d", "--kinds", "klt") == 0
    train = ("tokenizer", "train", "--data", str(data), "--kind", "oat", "--preset", "tiny")
    assert cli.main([*train, "--steps", "1", "--out", str(tmp_path / "d/oat")]) == 0
    assert compare(data, tmp_path / "d", "--kinds", "oat") == 2, "made by someone else"
    (out / "comparison.json").write_text("{}")
    capsys.readouterr()
    assert compare(data, out, "--kinds", "bin") == 2
    error = capsys.readouterr().err
    assert "has no schema and version, expected oatkit/tokenizer-comparison" in error


def test_what_cannot_be_trained_is_refused_at_once(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(data, tmp_path / "c", "--horizon", "7") == 2
    assert "quest halves the horizon: 7 is not even" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert compare(data, tmp_path / "c", "--minutes", "1", "--steps", "4") == 2
    assert "give --steps or --minutes, not both" in capsys.readouterr().err
    assert compare(data, tmp_path / "c", "--minutes", "0") == 2
    assert "minutes is 0.0, expected more than 0" in capsys.readouterr().err
    assert compare(data, tmp_path / "c", "--kinds") == 2
    assert "name at least one kind" in capsys.readouterr().err


@pytest.mark.usefixtures("_no_report")
def test_minutes_become_steps_that_a_second_run_keeps(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, flags = tmp_path / "c", ("--minutes", "0.001", "--kinds", "oat")
    assert compare(data, out, *flags) == 0
    steps = read(out).steps["oat"]
    assert steps >= 1
    said = (
        f"{steps:,} steps of each trained kind, so that oat, the slowest, takes about 0.001 minut"
    )
    assert said in capsys.readouterr().out
    assert json.loads((out / "oat/config.json").read_text())["train"]["steps"] == steps
    (out / "oat/config.json").unlink()  # as if it had been stopped before it was saved
    monkeypatch.setattr(TokenizerTraining, "affordable_steps", lambda *_: 10**6)
    assert compare(data, out, *flags) == 0
    assert read(out).steps["oat"] == steps


@pytest.mark.usefixtures("_no_report")
def test_flags_reach_the_artifacts(data: Path, tmp_path: Path) -> None:
    flags = (
        *("--kinds", "oat", "--batch-size", "16", "--learning-rate", "1e-4", "--held-out", "0.2"),
        *("--split-seed", "5", "--seed", "7", "--action-dims", "0", "2", "--fps", "10"),
        *("--action-key", "action", "--cache", str(tmp_path / "cache")),
    )
    assert compare(data, tmp_path / "c", *flags) == 0
    config = json.loads((tmp_path / "c/oat/config.json").read_text())
    wanted = {"steps": 4, "batch_size": 16, "learning_rate": 1e-4, "seed": 7}
    assert {name: config["train"][name] for name in wanted} == wanted
    assert config["split"] == {"held_out": 0.2, "seed": 5}
    assert config["codec"]["levels"] == [5, 4]
    assert (config["codec"]["action_dim"], config["codec"]["num_tokens"]) == (2, 4)
    assert read(tmp_path / "c").num_episodes == 4


@pytest.mark.usefixtures("_no_report")
def test_the_published_fast_is_compared_as_it_is(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ("tokenizer", "train", "--data", str(data), "--kind", "fast", "--preset", "tiny")
    own = tmp_path / "own"
    assert cli.main([*fit, "--horizon", "8", "--scale", "5", "--out", str(own)]) == 0
    flags = ("--kinds", "bin", "fast", "--published", str(own))
    assert compare(data, tmp_path / "c", *flags) == 0
    assert load_tokenizer(tmp_path / "c/fast").codec.config.scale == 5.0
    for index in range(2):
        assert compare(data, tmp_path / "run", *flags, "--shard", f"{index}/2") == 0
    assert cli.main(["merge", str(tmp_path / "run")]) == 0
    assert load_tokenizer(tmp_path / "run/fast").codec.config.scale == 5.0
    assert read(tmp_path / "run").settings == read(tmp_path / "c").settings
    capsys.readouterr()
    assert compare(data, tmp_path / "d", "--kinds", "bin", *flags[3:]) == 2
    error = capsys.readouterr().err
    assert "--published is for fast, which is not among the kinds: leave it out" in error


@pytest.mark.usefixtures("_no_report")
def test_a_correction_is_compared_where_it_helps(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("oatkit.tokenizers.corrected.STEPS", 20)
    monkeypatch.setattr("oatkit.tokenizers.corrected.EVALUATE_EVERY", 20)
    for worth, is_kept in ((float("inf"), True), (0.0, False)):
        monkeypatch.setattr("oatkit.tokenizers.corrected.WORTH", worth)
        out = tmp_path / str(worth)
        assert compare(data, out, "--kinds", "klt", "--correct") == 0
        assert isinstance(load_tokenizer(out / "klt").codec, Corrected) == is_kept
        assert "the correction " in capsys.readouterr().out


def test_policies_are_trained_on_the_tokens_and_the_first_sentence_recommends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tiny.write_dataset(tmp_path / "data")
    flags = ("--kinds", "bin", "klt", "--policy-minutes", "0.001")
    assert compare(data, tmp_path / "c", *flags) == 0
    printed, found = capsys.readouterr().out, read(tmp_path / "c")
    assert f"policies: {found.policy_steps} steps on each kind, so that" in printed
    assert all(kind.policy is not None for kind in found.kinds)
    assert "\nFor a policy: " in printed
    assert "\nridge " in printed
    page = (tmp_path / "c/report.html").read_text()
    assert page.index("For a policy: ") < page.index("needs the fewest tokens")
    assert "<h2>A policy on these tokens</h2>" in page
    assert "<td>a linear regression from the state</td>" in page
    assert (tmp_path / "c/policies.png").exists()
    assert "For a policy: " in oatkit_page(tmp_path / "c", found), "drawn from the record alone"


def test_while_it_is_not_known_which_is_best_a_longer_comparison_is_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny.write_dataset(tmp_path / "data")
    flags = ("--kinds", "klt", "--policy-minutes", "0.001")
    module = "oatkit.commands.tokenizer_compare.recommended"
    monkeypatch.setattr(module, lambda _: None)
    assert compare(data, tmp_path / "c", *flags) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert "oatkit tokenizer compare" in last
    assert "--policy-minutes 0.004" in last
    assert f"--out {tmp_path / 'c/longer'}" in last


def oatkit_page(out: Path, found: TokenizerComparison) -> str:
    write_comparison_report(found, out)
    return (out / "report.html").read_text()


def test_without_a_state_there_is_one_sentence(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(data, tmp_path / "c", "--policy-minutes", "1") == 2
    assert capsys.readouterr().err == (
        f"error: {data} has no state for a policy to read: name its columns with --state-key, "
        "or leave --policy-minutes out\n"
    )
    assert not (tmp_path / "c").exists()


def test_without_matplotlib_the_line_that_mends_it_is_shown() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import oatkit.measure, oatkit.errors\n"
        "try: import oatkit.measure.reports.comparison_report\n"
        "except oatkit.errors.MissingExtraError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "this needs optional packages: pip install 'oatkit[report]'\n"
