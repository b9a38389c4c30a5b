"""Where the checkpoint of a policy lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from oatkit.storage.artifact import local_folder

HUB_OPTIONS = ("force_download", "token", "cache_dir", "local_files_only", "revision")
"""Arguments of LeRobot's `from_pretrained` that say how to download; its `resume_download` and
`proxies` have no effect any more."""


def checkpoint_folder(name: str | Path, options: Mapping[str, Any]) -> Path:
    """The folder itself, or a download from the hub.

    Args:
        name: Folder or hub id.
        options: Arguments of `from_pretrained`, of which those of the hub are taken.
    """
    if Path(name).is_dir():
        return local_folder(name)
    return Path(
        snapshot_download(str(name), **{k: options[k] for k in HUB_OPTIONS if k in options})
    )
