from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.jobs.dataset_view import view_dataset
from tests.data import datasets
from tests.data.datasets import make_demos
from tests.data.rerun_reading import read_recording
from tests.tokenizers.small_tokenizers import HORIZON, make


def test_episodes_chunks_and_tokens_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    demos = make_demos()
    dataset = oatkit.open_dataset(datasets.write_npz_folder(tmp_path / "d", demos, images=True))
    tokenizer = make("oat")
    view_dataset(dataset.subset([0, 2]), tmp_path / "d.rrd", tokenizer=tokenizer, stride=5)
    found = read_recording(tmp_path / "d.rrd")
    assert {path.split("/")[1] for path in found} == {"episode-0000", "episode-0002"}
    episode = {path.split("/", 2)[2]: parts for path, parts in found.items() if "0002" in path}
    assert episode["task"]["text"] == [(None, [demos[2].task])]
    for key, rows in (("action", demos[2].actions), ("state", demos[2].state)):
        assert [step for step, _ in episode[key]["scalars"]] == list(range(20))
        np.testing.assert_allclose([row for _, row in episode[key]["scalars"]], rows)
    assert [step for step, _ in episode["camera/front"]["blob"]] == list(range(20))
    chunks, _ = dataset.subset([2]).chunks(HORIZON, stride=5).actions(range(4))
    for name, expected in {
        "true": chunks,
        "budget-1": tokenizer.decode(tokenizer.encode(chunks), 1),
        f"budget-{tokenizer.max_tokens}": tokenizer.decode(tokenizer.encode(chunks)),
    }.items():
        recorded = episode[f"chunk/{name}"]["strips"]
        assert [step for step, _ in recorded] == [0, 5, 10, 15]
        values = np.array([strips for _, strips in recorded])  # (B, A, T, step and value)
        np.testing.assert_allclose(values[..., 1].transpose(0, 2, 1), expected, rtol=1e-5)
    words = [text[0] for _, text in episode["tokens"]["text"]]
    assert words == [" ".join(map(str, ids)) for ids in tokenizer(chunks)]


def test_a_tokenizer_of_other_actions(tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    dataset = oatkit.open_dataset(np.zeros((12, 5)))
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 5"):
        view_dataset(dataset, tmp_path / "d.rrd", tokenizer=make("oat"))
    with pytest.raises(ValueError, match="stride is 0, expected 1 or more"):
        view_dataset(dataset, tmp_path / "d.rrd", stride=0)
