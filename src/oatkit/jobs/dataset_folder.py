"""A dataset that is made as one shard beside its place, and moved there when it is whole.

    demonstrations.partial/plan.json     what was asked for, and units, as in every folder of shards
    demonstrations.partial/dataset       being assembled
    demonstrations                       the dataset

A run that is killed at any moment is completed by the same call.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.errors import DatasetError, OatkitError
from oatkit.shards import Merge, ShardFolder, ShardNumber, Work, merge_folder, run_shard
from oatkit.shards.shard_folder import PLAN

LOCK = "lock"


def make_in_place(work: Work, merge: Merge, out: Path, plan_path: str, console: Console) -> Path:
    """Make a dataset, or complete it, and return its path.

    A finished dataset of the same work is left as it is. Anything else at `out`, or an unfinished
    dataset of other work, is an error and nothing is touched.

    Args:
        work: What makes the dataset.
        merge: What joins its units into `dataset` of their folder.
        out: Folder of the dataset.
        plan_path: Where in the dataset the settings of the work are.
        console: Where to say that the dataset was finished before.
    """
    out = out if out.name not in ("", "..") else out.resolve()  # `.` has no name of its own
    partial = out.with_name(f"{out.name}.partial")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        require_plan(out / plan_path, out, work.settings)
        console.print(f"{out} is already finished", highlight=False, markup=False, soft_wrap=True)
        if (partial / PLAN).exists() and ShardFolder(partial).is_of(work):
            remove_folder(partial)
        return out
    partial.mkdir(parents=True, exist_ok=True)
    with sole_use_of(partial), _stops_explained(partial):
        run_shard(work, ShardNumber(0, 1), partial)
        merge_folder(partial, {work.name: lambda: merge}).rename(out)
    remove_folder(partial)
    return out


def require_plan(path: Path, folder: Path, plan: dict[str, Any]) -> None:
    """Raise unless a folder was made by the plan, which it says in a file at `path`."""
    if not path.exists():
        raise DatasetError(
            f"{folder} exists and is not from this command; choose another folder or remove it"
        )
    try:
        found = dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise DatasetError(f"{path} is no plan of this command; remove its folder") from error
    different = [
        f"{key} was {found.get(key)}, is {plan.get(key)}"
        for key in {**found, **plan}
        if found.get(key) != plan.get(key)
    ]
    if different:
        raise DatasetError(
            f"{folder} was made with other options ({'; '.join(different)}): "
            "use those, choose another folder, or remove it"
        )


@contextmanager
def sole_use_of(partial: Path) -> Iterator[None]:
    """Hold a lock that the system drops when this process ends, however it ends."""
    with (partial / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.path.samestat(os.fstat(lock.fileno()), (partial / LOCK).stat())
        except OSError:  # held by another, or removed by it a moment ago
            is_current = False
        if not is_current:
            raise DatasetError(f"another process is working in {partial}: let it end")
        yield


def remove_folder(partial: Path) -> None:
    """Delete the folder, the plan last, so that what a kill leaves is still recognized."""
    for folder in [path for path in partial.iterdir() if path.is_dir()]:
        shutil.rmtree(folder)
    shutil.rmtree(partial)


@contextmanager
def _stops_explained(partial: Path) -> Iterator[None]:
    """Say how to go on when the work stops halfway."""
    hint = f"what is finished is kept in {partial}, the same command again continues"
    try:
        yield
    except BrokenProcessPool as error:
        raise OatkitError(f"a worker process died (killed, or out of memory?); {hint}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {hint}") from None
