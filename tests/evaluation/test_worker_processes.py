"""Processes that are started anew: how many, Ctrl-C, and what ends them."""

from __future__ import annotations

import os
import signal

import pytest

from oatkit.errors import OatkitError
from oatkit.evaluation.worker_processes import (
    UNGUARDED,
    ctrl_c_ignored,
    num_cores,
    require_guard,
    starting,
)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_cores_that_a_batch_system_did_not_give_are_not_counted() -> None:
    before = os.sched_getaffinity(0)
    assert num_cores() == len(before)
    os.sched_setaffinity(0, [min(before)])
    try:
        assert num_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_ctrl_c_is_ignored_for_a_while() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c_ignored():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is before


def test_what_cannot_start_processes_yet_ends_without_a_word_and_its_parent_speaks() -> None:
    with pytest.raises(SystemExit) as ended, starting():
        raise RuntimeError("before the current process has finished its bootstrapping phase")
    assert ended.value.code == UNGUARDED
    with pytest.raises(OatkitError, match="__main__"):
        require_guard(UNGUARDED)


def test_other_ends_are_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="full"), starting():
        raise RuntimeError("the disk is full")
    for code in (None, 0, 1, -signal.SIGKILL):
        require_guard(code)
