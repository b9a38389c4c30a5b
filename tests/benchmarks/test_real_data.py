"""Datasets in each representation, at the smallest scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import real_data, record, report


def test_each_dataset_is_read_checked_converted_and_tokenized(folder: Path) -> None:
    del folder  # where the benchmark writes
    rng = np.random.default_rng(0)
    for name, state_dim in (("arm", 3), ("hand", 1)):
        Path(name).mkdir()
        for episode in range(10):
            walk = np.cumsum(rng.normal(size=(40, 3)), axis=0)
            state = {"observation.state": walk[:, :state_dim] + 1}
            np.savez(Path(name) / f"{episode}.npz", action=walk, fps=10, **state)
    command = ["--data", "arm=arm", "hand=hand", "--kinds", "fast"]
    real_data.main(command)
    found = record.read_result("real_data")["results"]
    assert found["arm"]["frames"] == 400
    assert found["arm"]["converted_difference"] < 1e-6
    assert found["arm"]["fast, relative"]["tokens"] > 0
    assert "refused" in found["hand"]["fast, relative"]
    section = report.section("real_data")
    (row,) = (line for line in section.splitlines() if line.startswith("| hand |"))
    assert row.endswith("| - |")
    real_data.main(command)
    assert record.read_result("real_data")["results"] == found, "what is there is kept"
