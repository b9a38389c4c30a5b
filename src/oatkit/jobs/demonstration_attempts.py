"""The folder of finished attempts at demonstrations, from which a killed run is completed.

    demonstrations.partial/box-close/00003.npz     a success (and 00003.corner2.mp4 with images)
    demonstrations.partial/box-close/00004.failed

Each file appears complete or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oatkit.errors import DatasetError
from oatkit.storage.atomic_write import ASIDE


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

    def is_complete(self, task: str) -> bool:
        """Whether a task has all its successes; none of its attempts is under way then."""
        return len(self.successes(task)) >= self._num_wanted

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
        if not path.name.startswith(ASIDE)  # left by a kill
    }
