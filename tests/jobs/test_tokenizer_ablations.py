"""The rows of the tokenizer's sweep, and the sweep from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.errors import ArtifactError
from oatkit.jobs.tokenizer_ablations import sweep_tokenizer, tokenizer_ablations
from tests.jobs.walks import write_walks


def test_the_rows_are_the_papers() -> None:
    rows = list(tokenizer_ablations())
    assert [row.levels for row in rows if row.ablation == "levels"] == [
        *((8, 6, 5), (8, 8, 8), (8, 5, 5, 5), (8, 8, 6, 5), (7, 5, 5, 5, 5))
    ]
    grid = {(row.horizon, row.num_tokens) for row in rows if row.ablation == "horizons"}
    assert grid == {(h, n) for h in (8, 16, 32, 64) for n in (1, 2, 4, 8)}
    assert [row.nested_dropout for row in rows if row.ablation == "nesting"] == [False, True]


def test_the_sweep_prints_nothing_and_refuses_other_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    monkeypatch.setattr("oatkit.jobs.tokenizer_ablations.LEVELS", ((5, 4),))
    dataset = oatkit.open_dataset(write_walks(tmp_path / "walks.npz"), cache_dir=tmp_path / "cache")
    recipe = {"steps": 2, "batch_size": 8, "seed": 3}
    how = {"only": "levels", "kind": "oat", "preset": "tiny"}
    found = sweep_tokenizer(dataset, tmp_path / "s.json", train=recipe, **how)
    assert capfd.readouterr() == ("", "")
    assert [row.vocab_size for row in found.rows] == [20]
    settings = found.settings
    assert (settings["steps"], settings["seed"], settings["train.batch_size"]) == (2, 3, 8)
    with pytest.raises(ArtifactError, match=r"made with another train\.batch_size \(was 8, now 4"):
        sweep_tokenizer(dataset, tmp_path / "s.json", train={**recipe, "batch_size": 4}, **how)
    with pytest.raises(ValueError, match=r"expected a name that ends in \.json"):
        sweep_tokenizer(dataset, tmp_path / "s", **how)
