"""The ablations in closed loop at the smallest scale, in a fast simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import policy_sweep, record, report
from benchmarks.claims import CLAIMS
from tests.benchmarks.tiny import TINY

ROWS = (
    *("8 actions, 8 tokens", "32 actions, 1 tokens"),
    *("32 actions, 8 tokens", "64 actions, 8 tokens"),
    *("levels 8 6 5", "levels 8 5 5 5", "levels 7 5 5 5 5"),
)


def test_rows_decide_the_claims(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in Path("data").glob("*.npz"):  # chunks of 64 actions need longer episodes
        columns = dict(np.load(path, allow_pickle=True))
        longer = {k: np.tile(v, (2, 1)) if v.ndim == 2 else v for k, v in columns.items()}
        np.savez(path, **longer)
    command = ["--only", *ROWS, *TINY, "--data", "data"]
    policy_sweep.main(command)
    found = record.read_results("policy_sweep")
    assert {name: list(rows) for name, rows in found.items()} == {
        "horizons-half": list(ROWS[:4]),
        "horizons-fixed": list(ROWS[:4]),
        "codebook": list(ROWS[4:]),
    }
    executed = {label: row["protocol"]["execute"] for label, row in found["horizons-half"].items()}
    assert list(executed.values()) == [4, 16, 16, 32]
    assert {row["protocol"]["execute"] for row in found["horizons-fixed"].values()} == {8}
    assert {row["kind"] for row in found["codebook"].values()} == {"oat"}
    policies = Path("out/bench/reproduction/tiny/metaworld/policies")
    assert len(list(policies.iterdir())) == 6  # 32 actions, 8 tokens have the levels 8 5 5 5
    section = report.section("policy_sweep")
    assert "| `64 actions, 8 tokens` | 32 | 4 | 4 | 0 | 1 |" in section
    assert "| 19.4 |" in section
    swept = [claim.find() for claim in CLAIMS if claim.table in found]
    decided = [one for one in swept if one.ours]
    assert (len(decided), len(swept)) == (6, 11)  # other cells were left out
    assert all("temperature 0, 4 steps" in one.ours for one in decided)
    policy_sweep.main(command)
    assert "codebook: levels 8 6 5 is finished" in capsys.readouterr().out
