"""The results of the pipeline of vision-language policies, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record, vlm_pipeline
from benchmarks.vlm_pipeline import NAME, Options, is_asked, merged, overfitted, played_before
from oatkit.types import EpisodeResult


def test_a_run_of_some_rows_keeps_the_others_with_the_settings_of_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    alone, taught = "vlm-ar/oat/paligemma2", "vlm-tc/oat/paligemma2"

    def save(name: str, parameters: int, steps: int, overfitted: str) -> None:
        shown = {
            "baselines": {"random": {}},
            "policies": {name: {"parameters": parameters, "settings": {"steps": steps}}},
            "overfitting": {overfitted: {}},
        }
        record.write_result(NAME, seed=0, settings={}, results=merged(shown))

    save(taught, 1, 2000, "vlm-tc/paligemma2")
    save(alone, 2, 500, "vlm-ar/paligemma2")
    save(taught, 3, 3000, "vlm-tc/paligemma2")
    found = record.read_results(NAME)
    assert list(found["policies"]) == [alone, taught]  # in the table's order
    assert found["policies"][alone] == {"parameters": 2, "settings": {"steps": 500}}
    assert found["policies"][taught] == {"parameters": 3, "settings": {"steps": 3000}}
    assert set(found["overfitting"]) == {"vlm-ar/paligemma2", "vlm-tc/paligemma2"}


def test_what_is_finished_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows ask for neither the mean demonstration nor for overfitting once more."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    some = Options(only=("vlm-tc",), episodes=2)
    assert [is_asked(some, name) for name in ("vlm-tc/oat/qwen3-vl", "vlm-ar/oat")] == [True, False]
    assert overfitted(some) == []
    everything = Options(episodes=2)
    assert len(overfitted(everything)) == len(overfitted(Options(only=("overfitting",)))) == 4
    assert played_before(some) == {}

    plays = [
        *(vlm_pipeline.played("door-lock", k, 7 + k, 9, k == 0) for k in range(2)),
        *(vlm_pipeline.played("door-unlock", k, 7 + k, 9, True) for k in range(2)),
    ]
    results = {"baselines": {"mean demonstration": plays}, "policies": {}, "overfitting": {}}
    results["overfitting"] = {"vlm-ar/paligemma2": {"token accuracy": 1.0}}
    vlm_pipeline.report(everything, results)
    assert len(overfitted(everything)) == 3
    again = [EpisodeResult(**play) for play in played_before(some)["mean demonstration"]]
    assert [(e.task, e.episode, e.is_success) for e in again] == [
        *(("door-lock", 0, True), ("door-lock", 1, False)),
        *(("door-unlock", 0, True), ("door-unlock", 1, True)),
    ]
    assert len({e.seed for e in again}) == 2, "the goals of the policies' episodes"
    assert played_before(Options(episodes=3)) == played_before(Options(episodes=2, seed=1)) == {}
