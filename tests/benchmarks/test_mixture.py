"""One tokenizer for several robots, at the smallest scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import mixture, record, report


def test_each_robot_has_four_rows(folder: Path) -> None:
    del folder  # where the benchmark writes
    rng = np.random.default_rng(0)
    for name, dim in (("arm", 4), ("hand", 2)):
        Path(name).mkdir()
        for episode in range(3):
            walk = np.cumsum(rng.normal(size=(30, dim)), axis=0)
            np.savez(Path(name) / f"{episode}.npz", action=walk, fps=10)
    steps = ["--steps", "4", "--preset", "tiny"]
    mixture.main(["--data", "arm=arm", "hand=hand", *steps])
    found = record.read_result("mixture")["results"]
    assert set(found) == {"arm", "hand"}
    section = report.section("mixture")
    assert section.count("| arm | 4 at 10 Hz |") == 4
    assert "| hand | 2 at 10 Hz | one for all |" in section
