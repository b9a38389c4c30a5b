"""Opens a dataset from a path or a hub id."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from oatkit.data.column_cache import ColumnCache, default_cache_dir
from oatkit.data.columns import Table
from oatkit.data.dataset import Dataset
from oatkit.data.episode_numbers import indices_of
from oatkit.data.formats.arrays import Arrays, Given
from oatkit.data.formats.format_table import FORMATS
from oatkit.data.formats.lerobot_meta import INFO_PATH
from oatkit.data.source import DeclaresActions, Fetch, Opening, Source
from oatkit.data.well_known import find_action, find_state
from oatkit.errors import DatasetError, similar_path

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def open_dataset(
    path: str | os.PathLike[str] | Given,
    *,
    action_key: str | Sequence[str] | None = None,
    state_key: str | Sequence[str] | None = None,
    action_dims: Sequence[int | str] | None = None,
    actions: str | Sequence[str] | None = None,
    fps: float | None = None,
    episodes: Container[int] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    allow_nonfinite: bool = False,
    show_progress: bool = False,
) -> Dataset:
    """Open a robot dataset of any known format.

    LeRobot v2.x and v3.0, robomimic, LIBERO and robosuite HDF5, diffusion-policy zarr, RLDS and
    npz are recognized by what is on disk; `docs/data.md` has their layouts.

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
        episodes: Numbers of the episodes to open, such as `range(50)`; of a LeRobot dataset on the
            hub only the files that hold them are downloaded.
        cache_dir: Folder for decoded numbers; `$OATKIT_CACHE` or `~/.cache/oatkit` by default.
        allow_nonfinite: Open even if action or state hold NaN or infinity.
        show_progress: Show a bar while a dataset is decoded for the first time.
    """
    place = Path(cache_dir) if cache_dir else default_cache_dir()
    opening = Opening(place, episodes=episodes, show_progress=show_progress)
    return dataset_of(
        open_source(path, opening) if isinstance(path, str | os.PathLike) else Arrays(path),
        opening,
        action_key=action_key,
        state_key=state_key,
        action_dims=action_dims,
        actions=actions,
        fps=fps,
        allow_nonfinite=allow_nonfinite,
    )


def dataset_of(
    source: Source,
    opening: Opening,
    *,
    action_key: str | Sequence[str] | None = None,
    state_key: str | Sequence[str] | None = None,
    action_dims: Sequence[int | str] | None = None,
    actions: str | Sequence[str] | None = None,
    fps: float | None = None,
    allow_nonfinite: bool = False,
) -> Dataset:
    """The dataset of a source that is open already.

    Args:
        source: What `open_source` gave.
        opening: How it was opened.

    The other arguments are those of `open_dataset`.
    """
    if fps is not None and not 0 < fps < math.inf:
        raise ValueError(f"--fps (fps) is {fps}, expected a number above 0")
    _require_episodes(source)
    cache = ColumnCache(source, opening.cache_dir, show_progress=opening.show_progress)

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
        episode_ids=None
        if opening.episodes is None
        else indices_of(opening.episodes, source.episode_numbers, source.root),
    )
    if not allow_nonfinite:
        dataset.require_finite()
    if actions is None and isinstance(source, DeclaresActions):
        actions = source.declared_actions
    return dataset.represented_as(actions)


def open_source(path: str | os.PathLike[str], opening: Opening | None = None) -> Source:
    """Recognize the format of a path or hub id and open it.

    Args:
        path: File, folder or hub id.
        opening: Which episodes are wanted and where the cache is; all of them and the default
            place by default.
    """
    opening = opening or Opening(default_cache_dir())
    local = Path(path).expanduser()
    if not local.exists():
        if not HUB_ID.fullmatch(str(path)):
            mixed = "; mixtures are for `train` commands" if "=" in str(path) else ""
            raise DatasetError(
                f"{path} does not exist: expected a file, a folder or a hub id (org/name){mixed}"
            )
        local, fetch = _download(str(path), opening)
        opening = replace(opening, fetch=fetch)
    for known in FORMATS:
        found = known.find(local)
        if found is not None:
            return known.open(found, opening)
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


def _download(hub_id: str, opening: Opening) -> tuple[Path, Fetch]:
    """Fetch a hub dataset without its videos, and a function that fetches a further file.

    Of a LeRobot dataset, of which only some episodes are wanted, nothing but `meta/` is fetched.
    """
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    repo, _, asked = hub_id.partition("@")
    revision = asked or None

    def fetch(name: str) -> Path:
        try:
            file = hf_hub_download(repo, name, repo_type="dataset", revision=revision)
        except (OSError, HfHubHTTPError, EntryNotFoundError) as error:
            raise DatasetError(f"{name} of {hub_id} cannot be fetched from the hub") from error
        return Path(file)

    def snapshot(*, only: str | None = None, without: str | None = None) -> Path:
        folder = snapshot_download(
            repo,
            repo_type="dataset",
            revision=revision,
            allow_patterns=only,
            ignore_patterns=without,
        )
        return Path(folder)

    try:
        if opening.episodes is not None:
            folder = snapshot(only="meta/*")
            if (folder / INFO_PATH).is_file():
                return folder, fetch
        return snapshot(without="videos/*"), fetch
    except (OSError, HfHubHTTPError, HFValidationError, EntryNotFoundError) as error:
        meant = similar_path(hub_id) or ": check the name, the network and `hf auth login`"
        raise DatasetError(
            f"{hub_id} is no path here and could not be fetched from the Hugging Face hub "
            f"({type(error).__name__}){meant}"
        ) from error
