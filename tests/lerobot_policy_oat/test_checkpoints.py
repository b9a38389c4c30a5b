"""Checkpoints in folders and on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_a_folder_is_itself(tmp_path: Path) -> None:
    from lerobot_policy_oat.checkpoints import checkpoint_folder

    assert checkpoint_folder(str(tmp_path), {"revision": "v2"}) == tmp_path


def test_the_revision_that_was_asked_for_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lerobot_policy_oat import checkpoints

    asked: dict[str, Any] = {}

    def download(repo_id: str, **options: Any) -> str:
        asked.update(options, repo_id=repo_id)
        return str(tmp_path)

    monkeypatch.setattr(checkpoints, "snapshot_download", download)
    options = {"revision": "v2", "token": None, "strict": False, "proxies": None}
    assert checkpoints.checkpoint_folder("me/policy", options) == tmp_path
    assert asked == {"repo_id": "me/policy", "revision": "v2", "token": None}
