"""Signals that stop a training: one process gets it, all save one checkpoint and end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from oatkit.train.checkpoint import Checkpoints
from oatkit.train.stop_signals import StopRequest, end_stopped, stop_signals
from tests.train.regression import start, start_two


def test_a_signal_is_noted_once_and_handlers_are_restored() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with StopRequest().listening(1) as stop:
        assert stop.agreed() == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.agreed() == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)  # the launcher hands on what the terminal sent
        assert stop.agreed() == signal.SIGTERM
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_ctrl_c_interrupts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.train.stop_signals.SAME_REQUEST_S", 0.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    with StopRequest().listening(1):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_slurm_may_send_another_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def test_how_a_process_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt, match="stopped after step 3; the same command again"):
        end_stopped(signal.SIGINT, 3)
    with pytest.raises(SystemExit) as caught:
        end_stopped(signal.SIGTERM, 3)
    assert caught.value.code == 143
    assert "stopped after step 3; the same command again" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_of_many_processes_one_speaks(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        end_stopped(number, 3, is_main=False)
    assert caught.value.code == 128 + number
    assert capsys.readouterr().err == ""


def test_sigterm_saves_a_checkpoint(tmp_path: Path) -> None:
    """Slurm's preemption: a run on GPUs would otherwise lose all since its last checkpoint."""
    process = start(tmp_path, 100_000)
    wait_for_checkpoint(tmp_path, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert latest_step(tmp_path) == stopped_at(errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_processes_stop_together_though_one_got_the_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    """If each looked at its own flag, one would wait in the barrier of a checkpoint and the other
    in the gradients of the next step, on GPUs until NCCL's timeout."""
    processes = start_two(tmp_path, 100_000)
    try:
        wait_for_checkpoint(tmp_path, processes[0])
        processes[1].send_signal(number)
        errors = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert stopped_at(errors[0]) == latest_step(tmp_path)
    assert "stopped" not in errors[1]  # one of them speaks
    first = -signal.SIGINT if number == signal.SIGINT else 143
    assert [process.returncode for process in processes] == [first, 128 + number]


def wait_for_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    while Checkpoints(out / "checkpoints", {}).latest() is None:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def latest_step(out: Path) -> int:
    path = Checkpoints(out / "checkpoints", {}).latest()
    assert path is not None
    return int(path.name.split("-")[1])


def stopped_at(errors: str) -> int:
    assert "stopped after step " in errors, errors
    return int(errors.split("stopped after step ")[1].split(";")[0])
