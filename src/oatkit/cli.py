"""The command line: find the command, parse its options, call it.

A command is a file of `oatkit.commands`, which is imported when the command is called, so that
`--help` of a group answers at once.
"""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

import tyro
from rich.console import Console
from rich.markup import escape

from oatkit.commands.command_line import with_flags
from oatkit.commands.option_types import option_types
from oatkit.errors import DivergedError, OatkitError, unknown_name

Options = TypeVar("Options")


@dataclass(frozen=True)
class Command:
    """One thing that `oatkit` does.

    Attributes:
        summary: Line about it in the help of its group.
        module: File of `oatkit.commands`. It has `run(options, console)`, which returns the exit
            code; the annotation of `options` is the dataclass that the arguments are parsed to.
    """

    summary: str
    module: str


@dataclass(frozen=True)
class Group:
    """Commands that share their first word.

    Attributes:
        summary: Line about them in the help of the group above.
        commands: Word to command or further group.
        example: Command that the help shows.
        aliases: Former word of a command to its present one.
    """

    summary: str
    commands: dict[str, Group | Command]
    example: str
    aliases: Mapping[str, str] = field(default_factory=dict)


OATKIT = Group(
    "ordered action tokens for robots",
    {
        "demo": Command("make data and show the whole story on a small scale", "demo"),
        "data": Group(
            "make, inspect, check and convert robot datasets",
            {
                "make": Group(
                    "make demonstrations in a simulator",
                    {
                        "metaworld": Command("its own scripted experts", "data_make_metaworld"),
                        "robosuite": Command("scripted experts of ours", "data_make_robosuite"),
                    },
                    "oatkit data make metaworld --episodes 10 --out out/metaworld",
                ),
                "info": Command("show a dataset at a glance", "data_info"),
                "check": Command("find what ruins training", "data_check"),
                "tokenize": Command("encode it ahead of training", "data_tokenize"),
                "view": Command("look at episodes in the Rerun viewer", "data_view"),
                "convert": Command("write a mended LeRobot dataset", "data_convert"),
            },
            "oatkit data info path/to/dataset",
        ),
        "tokenizer": Group(
            "train, measure and compare action tokenizers",
            {
                "train": Command("a dataset in, a tokenizer artifact out", "tokenizer_train"),
                "measure": Command("rate, distortion and diagnostics", "tokenizer_measure"),
                "compare": Command("all kinds on one dataset, and a report", "tokenizer_compare"),
                "sweep": Command("the paper's ablations of oat", "tokenizer_sweep"),
                "adapt": Command("a trained tokenizer for another robot", "tokenizer_adapt"),
            },
            "oatkit tokenizer train --data out/metaworld --kind oat-pow2 --out out/oat-pow2",
        ),
        "policy": Group(
            "train, measure and evaluate policies",
            {
                "train": Command("a dataset and a tokenizer in, a policy out", "policy_train"),
                "measure": Command("tokens and actions of held-out episodes", "policy_measure"),
                "calibrate": Command("when to stop early on this machine", "policy_calibrate"),
                "eval": Command("success in a simulator, with intervals", "policy_eval"),
                "sweep": Command("the paper's ablations in closed loop", "policy_sweep"),
            },
            "oatkit policy train --data out/metaworld --tokenizer out/oat-pow2 --state-key "
            "observation.environment_state --out out/policy",
        ),
        "vlm": Group(
            "vision-language backbones and the policies on them",
            {
                "check": Command("load a checkpoint and check what must hold", "vlm_check"),
                "combinations": Command("list every policy there is", "vlm_combinations"),
                "plan": Command("memory and speed of a training on GPUs, counted", "vlm_plan"),
                "scratch": Command("write a backbone with random weights", "vlm_scratch"),
            },
            "oatkit vlm check Qwen/Qwen3-VL-2B-Instruct --dtype bfloat16",
            aliases={"cells": "combinations"},
        ),
        "launch": Command("run a command in shards: here, on Slurm, on Ray", "launch"),
        "merge": Command("join what the shards of a command wrote", "merge"),
        "reproduce": Command("tables and figures of the paper, one command each", "reproduce"),
        "lab": Command("a page to play with tokens on your own data", "lab_page"),
        "serve": Command("a policy behind openpi's websocket protocol", "serve"),
        "export": Command("a decoder, and a light policy, as ONNX files", "export"),
        "doctor": Command("say what works on this machine", "doctor"),
    },
    "oatkit demo",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, or 2 after an error that the user can mend."""
    args = list(sys.argv[1:] if argv is None else argv)
    is_debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return _dispatch(OATKIT, "oatkit", args)
    except KeyboardInterrupt as stop:
        Console(stderr=True, highlight=False).print(str(stop) or "stopped", soft_wrap=True)
        return 130
    except (OatkitError, ValueError, OSError, ModuleNotFoundError) as error:
        if is_debug:
            raise
        if isinstance(error, BrokenPipeError) and _is_output_closed():
            return 141  # as SIGPIPE would end it
        if isinstance(error, DivergedError) and os.environ.get("RANK", "0") != "0":
            return 2  # the first process says it
        Console(stderr=True, highlight=False).print(
            f"[red]error:[/] {escape(_in_words(error))}", soft_wrap=True
        )
        return 2


def _in_words(error: Exception) -> str:
    """What the error says; of a package that is missing also how to get it."""
    package = error.name if isinstance(error, ModuleNotFoundError) else None
    if package is None or isinstance(error, OatkitError):
        return str(error)
    package = package.partition(".")[0]
    return (
        f"this needs {package}, which is not installed: pip install {package} (oatkit doctor says "
        "what works without it)"
    )


def _is_output_closed() -> bool:
    """Whether nobody reads the output any more, as after `oatkit --help | head -1`."""
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # what is left goes nowhere, so that the interpreter does not complain when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _console() -> Console:
    return Console(highlight=False)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    Console(stderr=True, highlight=False).print(f"warning: {message}", soft_wrap=True, markup=False)


def _dispatch(node: Group | Command, prog: str, args: Sequence[str]) -> int:
    if isinstance(node, Command):
        run = import_module(f"oatkit.commands.{node.module}").run
        options = get_type_hints(run)["options"]
        try:
            return int(run(_parse(options, prog, args), _console()))
        except (OatkitError, ValueError) as error:
            error.args = (with_flags(str(error), options),)
            raise
    if not args or args[0] in ("-h", "--help"):
        _print_group(node, prog)
        return 0 if args else 2
    if args[0] == "--version":
        from oatkit import __version__

        _console().print(f"oatkit {__version__}")
        return 0
    word = node.aliases.get(args[0], args[0])
    if word not in node.commands:
        raise ValueError(unknown_name("command", f"{prog} {word}", node.commands))
    return _dispatch(node.commands[word], f"{prog} {word}", args[1:])


def _print_group(group: Group, prog: str) -> None:
    lines = [f"usage: {prog} COMMAND [OPTIONS]", "", group.summary, "", "commands:"]
    width = 2 + max(10, *map(len, group.commands))
    lines += [f"  {name:<{width}}{node.summary}" for name, node in group.commands.items()]
    lines += ["", f"example:\n  {group.example}", ""]
    lines += [f"`{prog} COMMAND --help` has more; `--debug` shows where an error comes from."]
    _console().print("\n".join(lines), markup=False, soft_wrap=True)


def _parse(options: type[Options], prog: str, args: Sequence[str]) -> Options:
    return tyro.cli(
        options,
        prog=prog,
        args=list(args),
        description=inspect.getdoc(options),
        config=(tyro.conf.PositionalMetavarFromFieldName, tyro.conf.FlagCreatePairsOff),
        registry=option_types(),
    )


if __name__ == "__main__":
    sys.exit(main())
