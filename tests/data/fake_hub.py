"""A stand-in for the Hugging Face hub that copies files from one folder to another."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import EntryNotFoundError


class FakeHub:
    """The hub's two functions over a folder.

    Args:
        remote: Folder that plays the repository.
        local: Folder that plays the cache.
        monkeypatch: Puts the functions in place.
    """

    def __init__(self, remote: Path, local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._remote, self._local = remote, local
        self.fetched: list[str] = []
        self.asked: set[tuple[str, str, str | None]] = set()
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.snapshot_download)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", self.hf_hub_download)

    def snapshot_download(
        self,
        repo_id: str,
        *,
        repo_type: str,
        revision: str | None,
        allow_patterns: str | None = None,
        ignore_patterns: str | None = None,
    ) -> str:
        for path in sorted(self._remote.rglob("*")):
            name = path.relative_to(self._remote).as_posix()
            is_allowed = fnmatch.fnmatch(name, allow_patterns or "*")
            if path.is_file() and is_allowed and not fnmatch.fnmatch(name, ignore_patterns or ""):
                self.hf_hub_download(repo_id, name, repo_type=repo_type, revision=revision)
        return str(self._local)

    def hf_hub_download(
        self, repo_id: str, filename: str, *, repo_type: str, revision: str | None
    ) -> str:
        self.asked.add((repo_id, repo_type, revision))
        if not (self._remote / filename).is_file():
            raise EntryNotFoundError(filename)
        target = self._local / filename
        if not target.exists():
            self.fetched.append(filename)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self._remote / filename, target)
        return str(target)
