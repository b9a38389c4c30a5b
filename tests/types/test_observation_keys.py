"""The keys of observations are the ones LeRobot writes."""

from __future__ import annotations

from pathlib import Path

import oatkit
from oatkit.types.observation_keys import IMAGES, STATE, TASK
from tests.policies import tiny


def test_a_batch_of_chunks_has_these_keys(tmp_path: Path) -> None:
    data = oatkit.open_dataset(tiny.write_dataset(tmp_path / "npz"), cache_dir=tmp_path / "cache")
    batch = data.chunks(tiny.HORIZON, history=1, cameras=("front",)).batch([0])  # type: ignore[arg-type]
    assert {STATE, f"{IMAGES}front", TASK} <= set(batch)
