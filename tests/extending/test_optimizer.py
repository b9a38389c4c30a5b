"""An optimizer is added as `docs/training.md` says."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import load_file

from tests.extending.harness import extend
from tests.jobs.walks import write_walks


def test_an_optimizer_is_one_file_and_one_row(tmp_path: Path) -> None:
    extended = extend("training.md", tmp_path, "How to add an optimizer")
    assert len(extended.new) == 1
    assert len(extended.changed) == 1
    data, out = write_walks(tmp_path / "walks.npz"), tmp_path / "t"
    where = ("--data", str(data), "--out", str(out), "--kind", "oat", "--preset", "tiny")
    sizes = ("--horizon", "8", "--num-tokens", "4", "--levels", "5", "4")
    how = ("--optimizer", "lion", "--learning-rate", "1e-3", "--steps", "30")
    extended.oatkit("tokenizer", "train", *where, *sizes, *how)
    assert json.loads((out / "config.json").read_text())["train"]["optimizer"] == "lion"
    rows = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < 0.8 * rows[0]["loss"]
    state = load_file(out / "checkpoints/step-00000030/optimizer.safetensors")
    assert {name.rsplit("/", 1)[1] for name in state} == {"mean"}
    assert "lion" in extended.oatkit("policy", "train", "--help")
