"""Opens a dataset from a path or a hub id."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from oatkit.data.column_cache import ColumnCache
from oatkit.data.columns import Table
from oatkit.data.dataset import Dataset
from oatkit.data.formats.arrays import Arrays, Given
from oatkit.data.formats.format_table import FORMATS
from oatkit.data.source import DeclaresActions, Fetch, Source
from oatkit.data.well_known import find_action, find_state
from oatkit.errors import DatasetError

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def open_dataset(
    path: str | os.PathLike[str] | Given,
    *,
    action_key: str | Sequence[str] | None = None,
    state_key: str | Sequence[str] | None = None,
    action_dims: Sequence[int | str] | None = None,
    actions: str | Sequence[str] | None = None,
    fps: float | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    allow_nonfinite: bool = False,
    show_progress: bool = False,
) -> Dataset:
    """Open a robot dataset of any known format.

    LeRobot v2.x and v3.0, robomimic, LIBERO and robosuite HDF5, diffusion-policy zarr and npz
    are recognized by what is on disk; `docs/data.md` has their layouts.

    Args:
        path: A file or folder, or a dataset id of the Hugging Face hub (`org/name`, or
            `org/name@revision`), whose numbers are downloaded at once and videos when read; or
            arrays in memory, see `oatkit.data.formats.arrays`.
        action_key: The column to read as the action; several are joined side by side. By default
            the format's own, or the one with a well-known name (`oatkit.data.well_known`).
        state_key: The same for the state.
        action_dims: Which dimensions of the action to keep, by index or name.
        actions: How actions are represented in training, such as "relative:0-5 binary:6" (see
            `oatkit.data.action_words`); as the dataset declares by default.
        fps: Frames a second, where the files do not say or say it wrong.
        cache_dir: Folder for decoded numbers; `$OATKIT_CACHE` or `~/.cache/oatkit` by default.
        allow_nonfinite: Open even if action or state hold NaN or infinity.
        show_progress: Show a bar while a dataset is decoded for the first time.
    """
    if fps is not None and not 0 < fps < math.inf:
        raise ValueError(f"fps is {fps}, expected a number above 0")
    source: Source
    source = open_source(path) if isinstance(path, str | os.PathLike) else Arrays(path)
    _require_episodes(source)
    cache = ColumnCache(source, Path(cache_dir) if cache_dir else None, show_progress=show_progress)

    def table(keys: tuple[str, ...], dims: Sequence[int | str] | None = None) -> Table:
        columns = [(key, cache.column(key)) for key in keys]
        parts = [(key, source.features[key], column) for key, column in columns]
        return Table(parts, dims)

    state_keys = _keys(state_key, lambda: source.state_keys or find_state(source.features))
    dataset = Dataset(
        source,
        cache,
        action=table(_keys(action_key, lambda: _own_action_keys(source)), action_dims),
        state=table(state_keys) if state_keys else None,
        fps=fps if fps is not None else source.fps,
    )
    if not allow_nonfinite:
        dataset.require_finite()
    if actions is None and isinstance(source, DeclaresActions):
        actions = source.declared_actions
    return dataset.represented_as(actions)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Recognize the format of a path or hub id and open it."""
    fetch: Fetch | None = None
    local = Path(path).expanduser()
    if not local.exists():
        if not HUB_ID.fullmatch(str(path)):
            raise DatasetError(
                f"{path} does not exist: expected a file, a folder or a hub id (org/name)"
            )
        local, fetch = _download(str(path))
    for known in FORMATS:
        found = known.find(local)
        if found is not None:
            return known.open(found, fetch)
    if local.is_dir() and not any(local.iterdir()):
        raise DatasetError(f"{path} is an empty folder, expected a dataset")
    layouts = "; ".join(f"{known.name}: {known.layout}" for known in FORMATS)
    raise DatasetError(f"{path} is of no known dataset format ({layouts})")


def _require_episodes(source: Source) -> None:
    if not len(source.episode_lengths):
        raise DatasetError(f"{source.root} holds no episodes")
    empty = np.flatnonzero(source.episode_lengths <= 0)
    if len(empty):
        raise DatasetError(
            f"{source.file_of(int(empty[0]))}: episode {source.episode_numbers[empty[0]]} has no "
            "frames"
        )


def _own_action_keys(source: Source) -> tuple[str, ...]:
    """The columns that are the action by the format, or the one with a well-known name."""
    if all(key in source.features for key in source.action_keys):
        return source.action_keys
    return (find_action(source.features, source.root),)


def _keys(
    asked: str | Sequence[str] | None, default: Callable[[], tuple[str, ...]]
) -> tuple[str, ...]:
    if asked is None:
        return default()
    return (asked,) if isinstance(asked, str) else tuple(asked)


def _download(hub_id: str) -> tuple[Path, Fetch]:
    """Fetch a hub dataset without its videos, and a function that fetches one of those."""
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repo, _, revision = hub_id.partition("@")

    def fetch(name: str) -> Path:
        try:
            file = hf_hub_download(repo, name, repo_type="dataset", revision=revision or None)
        except (OSError, HfHubHTTPError, LocalEntryNotFoundError) as error:
            raise DatasetError(f"{name} of {hub_id} cannot be fetched from the hub") from error
        return Path(file)

    try:
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision or None, ignore_patterns=["videos/*"]
        )
    except (OSError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        raise DatasetError(
            f"{hub_id} is no path here and could not be fetched from the Hugging Face hub "
            f"({type(error).__name__}): check the name, the network and `hf auth login`"
        ) from error
    return Path(folder), fetch
