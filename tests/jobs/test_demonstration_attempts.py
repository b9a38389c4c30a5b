"""The folder of attempts, and which come next."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.errors import DatasetError
from oatkit.jobs.demonstration_attempts import Attempts


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
