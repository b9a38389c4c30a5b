"""What MetaWorld's demonstrations hold; how they are made is in `test_demonstration_job.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import oatkit
from oatkit.envs.metaworld import FPS, TASKS


def test_what_is_written(demos: Path) -> None:
    dataset = oatkit.open_dataset(demos)
    assert (len(dataset), dataset.fps, dataset.format) == (6, FPS, "LeRobot v3.0")
    assert [e.task for e in dataset] == [TASKS["reach"]] * 3 + [TASKS["door-close"]] * 3
    assert dataset.action.names == ("x", "y", "z", "gripper")
    assert dataset.columns == (
        "observation.state",
        "observation.environment_state",
        "action",
        "timestamp",
    )
    for episode in dataset:
        np.testing.assert_array_equal(
            episode.column("observation.environment_state")[:, :4], episode.state
        )
        assert np.abs(episode.actions).max() <= 1
    goals = {e.column("observation.environment_state")[0, -3:].tobytes() for e in dataset}
    assert len(goals) == 6
    assert sorted(p.name for p in demos.parent.iterdir()) == ["d"], "nothing is left beside it"
