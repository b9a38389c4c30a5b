"""`oatkit tokenizer sweep`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oatkit import cli
from oatkit.jobs import tokenizer_ablations
from oatkit.storage.records import record_from_json
from oatkit.types import TokenizerSweep
from tests.jobs.walks import write_walks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_walks(tmp_path_factory.mktemp("data") / "walks.npz", 70)


@pytest.fixture(autouse=True)
def _brief_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)


def sweep(data: Path, out: Path, *flags: str) -> int:
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny", "--steps", "2")
    return cli.main(["tokenizer", "sweep", *shared, *flags])


def read_sweep(path: Path) -> TokenizerSweep:
    return record_from_json(TokenizerSweep, json.loads(path.read_text()))


@pytest.fixture
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_ablations, "LEVELS", ((8, 6, 5), (8, 8, 6, 5)))
    monkeypatch.setattr(tokenizer_ablations, "HORIZONS", (8,))
    monkeypatch.setattr(tokenizer_ablations, "NUM_TOKENS", (1, 2))


@pytest.mark.usefixtures("_few_rows")
def test_a_sweep_goes_on_after_a_kill_and_skips_what_is_done(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "s.json"
    real, trained = tokenizer_ablations.train_tokenizer, []

    def dying(dataset: Any, kind: str, out: Path, **options: Any) -> Any:
        trained.append(out.name)
        if len(trained) == 3:
            raise OSError("the power went out")
        return real(dataset, kind, out, **options)

    monkeypatch.setattr(tokenizer_ablations, "train_tokenizer", dying)
    assert sweep(data, out) == 2
    assert len(read_sweep(out).rows) == 2
    assert sweep(data, out) == 0
    # five rows are trained, the third twice; the nested row is that of the default levels
    assert len(trained) == 6
    assert trained[2] == trained[3]
    found = read_sweep(out)
    assert (found.schema, found.version) == ("oatkit/tokenizer-sweep", 2)
    assert [row.ablation for row in found.rows] == [
        *("levels", "levels", "horizons", "horizons", "nesting", "nesting")
    ]
    assert found.rows[-1].budgets == found.rows[1].budgets
    last = found.rows[-2]
    assert not last.nested_dropout
    assert [b.budget for b in last.budgets if b.is_trained] == [16]
    assert last.seconds > 0
    assert last.num_parameters > 0
    text = capsys.readouterr().out
    for line in ("8,6,5: 240 codes", "8 actions, 2 tokens", "no nested dropout"):
        assert line in text
    assert f"wrote {out}" in text
    assert "next: oatkit tokenizer train --data" in text

    assert sweep(data, out) == 0
    assert len(trained) == 6


@pytest.mark.usefixtures("_few_rows")
def test_flags_of_the_sweep(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.json"
    flags = (
        *("--only", "horizons", "--kind", "oat", "--held-out", "0.2", "--split-seed", "3"),
        *("--seed", "4", "--action-dims", "0"),
    )
    assert sweep(data, out, *flags) == 0
    assert [row.ablation for row in read_sweep(out).rows] == ["horizons", "horizons"]
    folder = tmp_path / "s/levels8865-horizon8-tokens2"
    config = json.loads((folder / "config.json").read_text())
    assert (config["kind"], config["train"]["steps"], config["train"]["seed"]) == ("oat", 2, 4)
    assert config["split"] == {"held_out": 0.2, "seed": 3}
    capsys.readouterr()
    assert sweep(data, out, *flags, "--seed", "5") == 2
    assert "s.json was made with another --seed (was 4, now 5)" in capsys.readouterr().err
    assert sweep(data, tmp_path / "s.txt") == 2
    assert "expected a name that ends in .json" in capsys.readouterr().err
    out.unlink()
    assert sweep(data, out, *flags) == 2
    assert "holds an artifact, but" in capsys.readouterr().err
