"""The keys of requests to a policy, and the changes of `--map`."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.serve.request_keys import request_keys
from tests.serve.slow import make_policy


def test_changes_rename_and_ignore(tmp_path: Path) -> None:
    spec = make_policy(tmp_path, cameras=("front",)).spec
    keys = request_keys(spec, ["joints=observation.state", "extra="])
    assert keys.translate({"joints": 1, "extra": 2}) == {"observation.state": 1}
    assert keys.translate({"observation/state": 1}) == {"observation.state": 1}
    assert keys.preferred == {
        "task": "prompt",
        "observation.state": "joints",
        "observation.images.front": "observation/front_image",
    }


@pytest.mark.parametrize("change", ["joints", "=task", "budget=task", "joints=observation.stat"])
def test_changes_that_mean_nothing(tmp_path: Path, change: str) -> None:
    with pytest.raises(ValueError, match=f"--map {change}: "):
        request_keys(make_policy(tmp_path).spec, [change])
