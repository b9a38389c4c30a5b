"""The results of the pipeline of vision-language policies, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record
from benchmarks.vlm_pipeline import NAME, merged


def test_a_run_of_some_rows_keeps_the_others_with_the_settings_of_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    alone, taught = "vlm-ar/oat/paligemma2", "vlm-tc/oat/paligemma2"

    def save(name: str, parameters: int, steps: int, overfitted: str) -> None:
        shown = {
            "baselines": {"random": {}},
            "policies": {name: {"parameters": parameters}},
            "overfitting": {overfitted: {}},
        }
        settings = {"steps": steps}
        record.write_result(NAME, seed=0, settings=settings, results=merged(shown, settings))

    save(taught, 1, 2000, "vlm-tc/paligemma2")
    save(alone, 2, 500, "vlm-ar/paligemma2")
    save(taught, 3, 3000, "vlm-tc/paligemma2")
    found = record.read_results(NAME)
    assert list(found["policies"]) == [alone, taught]  # in the table's order
    assert found["policies"][alone] == {"parameters": 2, "settings": {"steps": 500}}
    assert found["policies"][taught] == {"parameters": 3, "settings": {"steps": 3000}}
    assert set(found["overfitting"]) == {"vlm-ar/paligemma2", "vlm-tc/paligemma2"}
