"""Every command that runs a network takes `--device`, says it first and hands it on."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console

from oatkit import cli
from oatkit.cli import Command, Group
from oatkit.commands.device_options import announce_device
from tests.commands.running import run_command
from tests.nn.pretended_devices import pretend_cuda

WITHOUT_NETWORK = {
    "data make metaworld",
    "data make robosuite",
    "data convert",
    "launch",
    "merge",
    "data info",
    "data check",
    "vlm combinations",
    "vlm plan",
    "vlm scratch",
    "doctor",
}
"""Commands in which no network runs."""
ON_THE_CPU = {"export", "data view", "tokenizer adapt"}
"""ONNX files are compared with torch where ONNX Runtime runs them; the others run a tokenizer on
some chunks."""
ARGUMENTS = {
    "demo": "",
    "data tokenize": "d --tokenizer t",
    "tokenizer train": "--data d --out o",
    "tokenizer measure": "a --data d",
    "tokenizer compare": "--data d --out o",
    "tokenizer sweep": "--data d --out o.json",
    "policy train": "--data d --out o",
    "policy measure": "a --data d",
    "policy calibrate": "a --data d",
    "policy eval": "a --out o",
    "policy sweep": "--data d --out o.json",
    "reproduce": "light-policies --out o",
    "vlm check": "a",
    "lab": "a --data d",
    "serve": "a --port 0",
}
"""What each command needs beside the device; none of the files exists."""


def _commands(group: Group, words: str = "") -> dict[str, Command]:
    found: dict[str, Command] = {}
    for word, node in group.commands.items():
        name = f"{words} {word}".strip()
        found |= {name: node} if isinstance(node, Command) else _commands(node, name)
    return found


def test_every_command_is_accounted_for() -> None:
    assert set(_commands(cli.OATKIT)) == {*ARGUMENTS, *WITHOUT_NETWORK, *ON_THE_CPU}


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_device_that_is_not_there_is_refused_first(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, a 2B model was loaded on the CPU of a machine with GPUs, and nobody was told."""
    words = [*command.split(), *ARGUMENTS[command].split(), "--device", "cuda:7"]
    code, out, errors = run_command(words, capsys)
    assert (code, out) == (2, "")
    assert errors == "error: there is no device 'cuda:7' here, only cpu\n"


@pytest.mark.parametrize("command", ["policy eval", "tokenizer measure", "policy measure", "lab"])
def test_the_device_is_the_first_line(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = run_command([*command.split(), *ARGUMENTS[command].split()], capsys)
    assert out.splitlines()[0] == "on the CPU"
    pretend_cuda(monkeypatch)
    console = Console(highlight=False)
    assert announce_device(console, "cuda:1") == torch.device("cuda:1")
    assert capsys.readouterr().out == "on cuda:1 (NVIDIA A100)\n"
