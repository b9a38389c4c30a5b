"""The folder of finished attempts at demonstrations, from which a killed run is completed.

    demonstrations.partial/plan.json               what was asked for
    demonstrations.partial/box-close/00003.npz     a success (and 00003.corner2.mp4 with images)
    demonstrations.partial/box-close/00004.failed
    demonstrations.partial/dataset                 being assembled

Each file appears complete or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oatkit.errors import DatasetError
from oatkit.storage.atomic_write import ASIDE, atomic_write

PLAN_PATH = "plan.json"
LOCK = "lock"


def require_plan(folder: Path, plan_path: str, plan: dict[str, Any]) -> None:
    """Raise unless a folder was made by the plan, which it says in `plan_path`."""
    found = read_plan(folder / plan_path)
    if found is None:
        raise DatasetError(
            f"{folder} exists and is not from this command; choose another folder or remove it"
        )
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


def read_plan(path: Path) -> dict[str, Any] | None:
    """The plan in a file; None where there is no file."""
    if not path.exists():
        return None
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise DatasetError(f"{path} is no plan of this command; remove its folder") from error


def start_or_continue(partial: Path, plan: dict[str, Any]) -> None:
    """Write the plan into a new folder; raise if the folder has another one."""
    for leftover in partial.rglob(f"{ASIDE}*"):
        leftover.unlink()
    if all(path.name == LOCK for path in partial.iterdir()):
        with atomic_write(partial / PLAN_PATH) as path:
            path.write_text(json.dumps(plan, indent=2))
    require_plan(partial, PLAN_PATH, plan)


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


def attempt_path(partial: Path, task: str, number: int, suffix: str) -> Path:
    """Where the result of an attempt is."""
    return partial / task / f"{number:05d}.{suffix}"


class Attempts:
    """Results of the attempts at each task, and which attempt comes next.

    An attempt is started only if those that succeeded and those under way are too few even if
    all of them succeed, so that none is superfluous.

    Args:
        partial: Folder of the attempts that are finished.
        tasks: Names of the tasks.
        num_wanted: Successful attempts that each task needs.
    """

    def __init__(self, partial: Path, tasks: Sequence[str], num_wanted: int) -> None:
        self._num_wanted = num_wanted
        self._limit = max(20, 5 * num_wanted)
        self._is_success = {task: _read_results(partial / task) for task in tasks}
        self._under_way: dict[str, set[int]] = {task: set() for task in tasks}

    def successes(self, task: str) -> list[int]:
        """Numbers of the successful attempts, in order."""
        return sorted(number for number, is_success in self._is_success[task].items() if is_success)

    @property
    def num_successes(self) -> int:
        return sum(len(self.successes(task)) for task in self._is_success)

    @property
    def num_finished(self) -> int:
        return sum(map(len, self._is_success.values()))

    def start_next(self) -> tuple[str, int] | None:
        """Task and number of the attempt to start now, if one is needed."""
        for task, under_way in self._under_way.items():
            if len(self.successes(task)) + len(under_way) >= self._num_wanted:
                continue
            number = self._lowest_free_number(task)
            if number < self._limit:
                under_way.add(number)
                return task, number
            if not under_way:
                raise DatasetError(
                    f"the expert for {task!r} succeeded in {len(self.successes(task))} of "
                    f"{self._limit} attempts, too few for {self._num_wanted} episodes: "
                    "ask for less noise or leave the task out"
                )
        return None

    def finish(self, task: str, number: int, *, is_success: bool) -> None:
        self._under_way[task].remove(number)
        self._is_success[task][number] = is_success

    def _lowest_free_number(self, task: str) -> int:
        taken = self._is_success[task].keys() | self._under_way[task]
        return next(number for number in range(len(taken) + 1) if number not in taken)


def _read_results(folder: Path) -> dict[int, bool]:
    """Number of each finished attempt, and whether it succeeded."""
    return {
        int(path.stem): suffix == "npz"
        for suffix in ("npz", "failed")
        for path in folder.glob(f"*.{suffix}")
    }
