"""The table of commands: help, errors, warnings and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from oatkit import cli
from oatkit.commands import doctor
from oatkit.commands.doctor import Doctor
from oatkit.errors import DivergedError
from tests.commands.running import run_command


def leaves(node: cli.Group | cli.Command, words: list[str]) -> list[list[str]]:
    if isinstance(node, cli.Command):
        return [words]
    return [leaf for name, child in node.commands.items() for leaf in leaves(child, [*words, name])]


def command(words: list[str]) -> cli.Command:
    node: cli.Group | cli.Command = cli.OATKIT
    for word in words:
        assert isinstance(node, cli.Group)
        node = node.commands[word]
    assert isinstance(node, cli.Command)
    return node


COMMANDS = leaves(cli.OATKIT, [])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_shows_a_real_example(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_command([*words, "--help"], capsys)
    assert code == 0
    assert "Example:" in out
    assert f"oatkit {' '.join(words)}" in out.split("Example:")[1]


@pytest.mark.parametrize("words", [[], ["data"], ["data", "make"]], ids=" ".join)
def test_every_group_lists_its_commands(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_command([*words, "--help"], capsys)
    assert code == 0
    assert "example:\n  oatkit" in out
    assert run_command(words, capsys)[0] == 2, "no command is an error"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"], capsys)[:2] == (0, "oatkit 0.1.0\n")


def test_a_mistyped_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_command(["data", "inof"], capsys)
    assert code == 2
    assert err.startswith("error: unknown command 'oatkit data inof'; known, closest first: info")


def test_errors_are_one_line_unless_debugging(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run_command(["data", "info", str(tmp_path)], capsys)
    assert (code, err) == (2, f"error: {tmp_path} is an empty folder, expected a dataset\n")
    (tmp_path / "notes.txt").write_text("hello")
    code, out, err = run_command(["data", "info", str(tmp_path)], capsys)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path} is of no known dataset format")
    assert err.count("\n") == 1
    with pytest.raises(Exception, match="is of no known dataset format"):
        cli.main(["data", "info", str(tmp_path), "--debug"])


def test_a_wrong_flag_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = run_command(["data", "check", "x", "--horizn", "3"], capsys)
    assert code == 2


def test_warnings_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    def warn(options: Doctor, console: Console) -> int:
        warnings.simplefilter("always")
        warnings.warn("this has no effect", stacklevel=2)
        return 0

    monkeypatch.setattr(doctor, "run", warn)
    assert run_command(["doctor"], capsys) == (0, "", "warning: this has no effect\n")


def test_a_former_name_of_a_command_still_works(capsys: pytest.CaptureFixture[str]) -> None:
    former, present = (run_command(["vlm", word], capsys) for word in ("cells", "combinations"))
    assert former == present
    assert former[0] == 0
    assert "cells" not in run_command(["vlm", "--help"], capsys)[1]


@pytest.mark.parametrize("words", [[], ["policy"]], ids=" ".join)
def test_the_help_of_a_group_is_instant(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from oatkit import cli\n"
        f"cli.main([*{words}, '--help'])\n"
        "assert not {'torch', 'numpy', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_package_that_is_missing_is_named() -> None:
    """As torch is in the environments of simulators."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from oatkit.cli import main\n"
        "sys.exit(main(['data', 'info', 'nowhere']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: this needs torch, which is not installed: pip install torch (oatkit doctor says "
        "what works without it)\n",
    )


def test_the_package_runs_as_the_command() -> None:
    run = [sys.executable, "-m", "oatkit", "--version"]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    assert done.stdout == "oatkit 0.1.0\n"


def test_a_reader_that_stops_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = [sys.executable, "-m", "oatkit", "doctor", "--help"]
    done = subprocess.run(run, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_file_of_a_command_has_its_name(words: list[str]) -> None:
    """All but one: `lab.py` is the name of the lab itself."""
    module = command(words).module
    assert module == {"lab": "lab_page"}.get("_".join(words), "_".join(words))
    assert (Path(cli.__file__).parent / "commands" / f"{module}.py").exists()


def test_of_many_processes_one_says_that_the_loss_is_not_finite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All see it; what only one process meets, such as a full disk, is said by that one."""
    errors: list[Exception] = [DivergedError("not finite in step 3"), OSError("disk full")]

    def fail(*_: object) -> int:
        raise errors[0]

    monkeypatch.setattr(cli, "_dispatch", fail)
    monkeypatch.setenv("RANK", "1")
    assert cli.main([]) == 2
    assert capsys.readouterr().err == ""
    errors.pop(0)
    assert cli.main([]) == 2
    assert "disk full" in capsys.readouterr().err
    errors.insert(0, DivergedError("not finite in step 3"))
    monkeypatch.setenv("RANK", "0")
    assert cli.main([]) == 2
    assert "not finite in step 3" in capsys.readouterr().err


DATA = ["--data", "{data}", "--out", "{out}"]
TRAIN = ["tokenizer", "train", *DATA, "--preset", "tiny"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*TRAIN, "--steps", "0"], "--steps is 0, expected at least 1"),
        ([*TRAIN, "--batch-size", "0"], "--batch-size is 0, expected at least 1"),
        ([*TRAIN, "--num-tokens", "12"], "--num-tokens is 12, expected a power of two"),
        ([*TRAIN, "--horizon", "0"], "--horizon is 0, expected at least 1"),
        ([*TRAIN, "--ema", "1.5"], "--ema is 1.5, expected 0 or more and below 1"),
        ([*TRAIN, "--levels", "1"], "--levels are [1], expected one or more of at least 2"),
        ([*TRAIN, "--fps", "0"], "--fps is 0.0, expected a number above 0"),
        ([*TRAIN, "--action-key", "torq"], "unknown column 'torq'; known, closest first: torque"),
        ([*TRAIN, "--held-out", "2"], "--held-out is 2.0, expected between 0 and 1"),
        (["tokenizer", "compare", *DATA, "--minutes", "0"], "--minutes is 0.0, expected more"),
        (["policy", "train", *DATA], "name a tokenizer artifact with --tokenizer, or a policy"),
        (["serve", "{out}", "--max-batch", "0"], "--max-batch is 0, expected at least 1"),
        (["serve", "{out}", "--max-message-mb", "0"], "--max-message-mb is 0, expected a byte"),
        (["serve", "{out}", "--timeout-s", "0"], "--timeout-s is 0.0, expected more than 0"),
        (["serve", "{out}", "--top-k", "-1"], "--top-k is -1, expected 0 or more"),
        (["serve", "{out}", "--top-p", "2"], "--top-p is 2.0, expected more than 0 and at most 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_name_the_flag(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    columns = {"action": rng.normal(size=(200, 2)), "torque": rng.normal(size=(200, 2))}
    np.savez(tmp_path / "d.npz", episode_ends=[50, 100, 150, 200], **columns)
    places = {"data": tmp_path / "d.npz", "out": tmp_path / "out"}
    code, _, err = run_command([word.format(**places) for word in words], capsys)
    assert code == 2
    assert said in " ".join(err.split())
    assert len(err.splitlines()) == 1
