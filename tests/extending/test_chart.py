"""A chart is added as `docs/measuring.md` says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.extending.harness import extend


def test_a_chart_is_one_file_and_one_row(tmp_path: Path) -> None:
    extended = extend("measuring.md", tmp_path, "How to add a chart")
    assert len(extended.new) == 1
    assert len(extended.changed) == 1
    data, out = tmp_path / "data.npz", tmp_path / "compared"
    actions = np.random.default_rng(0).normal(size=(200, 2))
    np.savez(data, action=actions, episode_ends=np.arange(20, 201, 20))
    compare = ("tokenizer", "compare", "--data", str(data), "--kinds", "bin", "klt")
    extended.oatkit(*compare, "--horizon", "8", "--num-tokens", "4", "--out", str(out))
    text = (out / "report.html").read_text()
    assert '<section id="smoothness"><h2>Smoothness</h2>' in text
    assert (
        text.index("<h2>Vocabulary") < text.index("<h2>Smoothness") < text.index("<h2>Prefix lab")
    )
    assert "is the roughest.</b> 1 is as smooth as the true chunks." in text
    assert (out / "smoothness.png").read_bytes().startswith(b"\x89PNG")
