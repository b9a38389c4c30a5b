"""`oatkit data check`: findings, and the exit code that tells of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands.running import run_command
from tests.data import datasets
from tests.data.datasets import make_demos


def test_data_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demos = make_demos((40, 40))
    demos[1].actions[5, 2] = np.nan
    path = str(datasets.write_npz_folder(tmp_path / "d", demos))
    record = tmp_path / "check.json"
    code, out, _ = run_command(["data", "check", path, "--out", str(record)], capsys)
    assert code == 1
    assert "non-finite" in out
    assert "episode 1 frame 5" in " ".join(out.replace("│", " ").split())
    assert "1 finding\n" in out
    (finding,) = json.loads(record.read_text())["findings"]
    assert (finding["kind"], finding["episode"], finding["frame"]) == ("non-finite", 1, 5)

    code, out, _ = run_command(["data", "check", path, "--ignore", "non-finite"], capsys)
    assert (code, out.splitlines()[-2]) == (0, "nothing wrong found, 1 ignored")
    assert out.splitlines()[-1].startswith(f"next: oatkit tokenizer train --data {path}")
    code, out, _ = run_command(
        ["data", "check", path, "--ignore", "non-finite", "--horizon", "41"], capsys
    )
    assert code == 1
    assert "short-episode" in out
