"""The folder of attempts: which come next, and who may work in it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from oatkit.errors import DatasetError
from oatkit.jobs.demonstration_attempts import LOCK, Attempts
from tests.jobs.demonstrations import make


def test_an_expert_that_fails_too_often(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, ("reach",), num_wanted=2)
    for _ in range(20):
        task, number = attempts.start_next() or ("", -1)
        attempts.finish(task, number, is_success=number == 3)
    with pytest.raises(DatasetError, match="'reach' succeeded in 1 of 20 attempts, too few for 2"):
        attempts.start_next()


def test_attempts_are_none_too_many_and_the_first_successes(tmp_path: Path) -> None:
    """Two workers that finish out of order still keep the first successes."""
    attempts = Attempts(tmp_path, ("reach",), num_wanted=3)
    fails = {0, 2, 3}
    under_way: list[tuple[str, int]] = []
    while True:
        while len(under_way) < 2 and (attempt := attempts.start_next()):
            under_way.append(attempt)
        if not under_way:
            break
        task, number = under_way.pop()  # the later one ends first
        attempts.finish(task, number, is_success=number not in fails)
    assert attempts.successes("reach") == [1, 4, 5]
    assert attempts.num_finished == 6


def test_two_processes_do_not_make_one_dataset(tmp_path: Path) -> None:
    partial = tmp_path / "d.partial"
    partial.mkdir()
    with (partial / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DatasetError, match=r"another process is working in .*d\.partial"):
            make(tmp_path / "d")


@pytest.mark.parametrize("text", ["[]", "{", "3"])
def test_a_damaged_plan_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "d.partial").mkdir()
    (tmp_path / "d.partial/plan.json").write_text(text)
    with pytest.raises(DatasetError, match=r"plan.json is no plan|with other options|exists and"):
        make(tmp_path / "d")
