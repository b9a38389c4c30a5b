"""The command line: find the command, parse its options, call it.

Commands import what they need when they are called, so that `--help` answers at once.
"""

from __future__ import annotations

import inspect
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.markup import escape

from oatkit.errors import OatkitError, unknown_name

Options = TypeVar("Options")


@dataclass(frozen=True)
class Command:
    """One thing `oatkit` does; `run` gets the program's name and the arguments left."""

    summary: str
    run: Callable[[str, Sequence[str]], int]


@dataclass(frozen=True)
class Group:
    """Commands under one word."""

    summary: str
    commands: dict[str, Group | Command]
    example: str


def _make_metaworld(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.metaworld_demonstrations import MakeMetaWorld, make_metaworld

    folder = make_metaworld(_parse(MakeMetaWorld, prog, args))
    _say(f"{folder} is ready", f"next: oatkit data info {shlex.quote(str(folder))}")
    return 0


def _data_info(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.data_inspect import ShowInfo, show_info

    return show_info(_parse(ShowInfo, prog, args), console())


def _data_check(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.data_inspect import RunCheck, run_check

    return run_check(_parse(RunCheck, prog, args), console())


def _tokenizer_train(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.tokenizer_training import TrainTokenizer, train_tokenizer

    options = _parse(TrainTokenizer, prog, args)
    train_tokenizer(options, console())
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    _say(f"wrote {options.out}", f"next: oatkit tokenizer measure {out} --data {data}")
    return 0


def _tokenizer_measure(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.tokenizer_measure import MeasureTokenizer, run_measure

    return run_measure(_parse(MeasureTokenizer, prog, args), console())


def _tokenizer_compare(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.tokenizer_comparison import CompareTokenizers, compare_tokenizers

    options = _parse(CompareTokenizers, prog, args)
    compare_tokenizers(options, console())
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    _say(
        f"open {options.out / 'report.html'}",
        f"next: oatkit tokenizer sweep --data {data} --out {out}/sweep.json",
    )
    return 0


def _tokenizer_sweep(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.tokenizer_sweep import SweepTokenizer, sweep_tokenizer

    options = _parse(SweepTokenizer, prog, args)
    sweep_tokenizer(options, console())
    data, kind = shlex.quote(options.data), options.kind
    _say(
        f"wrote {options.out}",
        f"next: oatkit tokenizer train --data {data} --kind {kind} --out out/{kind}",
    )
    return 0


def _policy_train(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.policy_training import TrainPolicy, train_policy

    options = _parse(TrainPolicy, prog, args)
    train_policy(options, console())
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    _say(f"wrote {options.out}", f"next: oatkit policy measure {out} --data {data}")
    return 0


def _policy_measure(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.policy_measure import MeasurePolicy, run_measure

    return run_measure(_parse(MeasurePolicy, prog, args), console())


def _policy_eval(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.policy_evaluation import RECORD, EvalPolicy, eval_policy

    options = _parse(EvalPolicy, prog, args)
    eval_policy(options, console())
    record = shlex.quote(str(options.out / RECORD))
    report = options.out / "report.html"
    _say(
        f"wrote {options.out / RECORD}",
        *([f"open {report}"] if report.exists() else []),
        f"next: oatkit policy eval ANOTHER --env {options.env} --against {record} --out DIR",
    )
    return 0


def _policy_sweep(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.policy_sweep import SweepPolicy, sweep_policy

    options = _parse(SweepPolicy, prog, args)
    sweep_policy(options, console())
    folder, env = shlex.quote(str(options.out.with_suffix(""))), options.env
    _say(
        f"wrote {options.out}",
        f"next: oatkit policy eval {folder}/ONE/policy --env {env} --budgets 1 2 4 --out DIR",
    )
    return 0


def _vlm_check(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.vlm_check import CheckVlm, run_check

    return run_check(_parse(CheckVlm, prog, args), console())


def _vlm_cells(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.vlm_check import ListCells, run_cells

    _parse(ListCells, prog, args)
    return run_cells(console())


def _vlm_scratch(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.vlm_check import WriteScratch, run_scratch

    folder = run_scratch(_parse(WriteScratch, prog, args))
    _say(f"wrote {folder}", f"next: oatkit vlm check {shlex.quote(str(folder))}")
    return 0


def _lab(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.lab_open import OpenLab, open_lab

    return open_lab(_parse(OpenLab, prog, args), console())


def _serve(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.serve_policy import Serve, serve_policy

    return serve_policy(_parse(Serve, prog, args), console())


def _export(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.model_export import Export, export_model

    options = _parse(Export, prog, args)
    export_model(options, console())
    _say(f"next: oatkit_client.LocalDecoder({str(options.folder)!r}).decode(tokens)")
    return 0


def _demo(prog: str, args: Sequence[str]) -> int:
    from oatkit.jobs.demo_run import Demo, run_demo

    return run_demo(_parse(Demo, prog, args), console())


def _doctor(prog: str, args: Sequence[str]) -> int:
    from oatkit.commands.doctor import Doctor, run_doctor

    _parse(Doctor, prog, args)
    return run_doctor(console())


OATKIT = Group(
    "ordered action tokens for robots",
    {
        "demo": Command("make data and show the whole story on a small scale", _demo),
        "data": Group(
            "make, inspect and check robot datasets",
            {
                "make": Group(
                    "make demonstrations in a simulator",
                    {"metaworld": Command("scripted experts of MetaWorld", _make_metaworld)},
                    "oatkit data make metaworld --episodes 10 --out out/metaworld",
                ),
                "info": Command("show a dataset at a glance", _data_info),
                "check": Command("find what ruins training", _data_check),
            },
            "oatkit data info path/to/dataset",
        ),
        "tokenizer": Group(
            "train, measure and compare action tokenizers",
            {
                "train": Command("a dataset in, a tokenizer artifact out", _tokenizer_train),
                "measure": Command("rate, distortion and diagnostics", _tokenizer_measure),
                "compare": Command("all kinds on one dataset, and a report", _tokenizer_compare),
                "sweep": Command("the paper's ablations of oat", _tokenizer_sweep),
            },
            "oatkit tokenizer train --data out/metaworld --kind oat-pow2 --out out/oat-pow2",
        ),
        "policy": Group(
            "train, measure and evaluate policies",
            {
                "train": Command("a dataset and a tokenizer in, a policy out", _policy_train),
                "measure": Command("tokens and actions of held-out episodes", _policy_measure),
                "eval": Command("success in a simulator, with intervals", _policy_eval),
                "sweep": Command("the paper's ablations in closed loop", _policy_sweep),
            },
            "oatkit policy train --data out/metaworld --tokenizer out/oat-pow2 --out out/policy",
        ),
        "vlm": Group(
            "vision-language backbones and the policies on them",
            {
                "check": Command("load a checkpoint and check what must hold", _vlm_check),
                "cells": Command("list every policy there is", _vlm_cells),
                "scratch": Command("write a backbone with random weights", _vlm_scratch),
            },
            "oatkit vlm check Qwen/Qwen3-VL-2B-Instruct --dtype bfloat16",
        ),
        "lab": Command("a page to play with tokens on your own data", _lab),
        "serve": Command("a policy behind openpi's websocket protocol", _serve),
        "export": Command("a decoder, and a light policy, as ONNX files", _export),
        "doctor": Command("say what works on this machine", _doctor),
    },
    "oatkit demo",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 2 after an error the user can mend."""
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
    except (OatkitError, ValueError, OSError) as error:
        if is_debug:
            raise
        Console(stderr=True, highlight=False).print(
            f"[red]error:[/] {escape(str(error))}", soft_wrap=True
        )
        return 2


def console() -> Console:
    return Console(highlight=False)


def _say(*lines: str) -> None:
    console().print("\n".join(lines), soft_wrap=True, markup=False)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    Console(stderr=True, highlight=False).print(f"warning: {message}", soft_wrap=True, markup=False)


def _dispatch(node: Group | Command, prog: str, args: Sequence[str]) -> int:
    if isinstance(node, Command):
        return node.run(prog, args)
    if not args or args[0] in ("-h", "--help"):
        _print_group(node, prog)
        return 0 if args else 2
    if args[0] == "--version":
        from oatkit import __version__

        console().print(f"oatkit {__version__}")
        return 0
    if args[0] not in node.commands:
        raise ValueError(unknown_name("command", f"{prog} {args[0]}", node.commands))
    return _dispatch(node.commands[args[0]], f"{prog} {args[0]}", args[1:])


def _print_group(group: Group, prog: str) -> None:
    lines = [f"usage: {prog} COMMAND [OPTIONS]", "", group.summary, "", "commands:"]
    lines += [f"  {name:<12}{node.summary}" for name, node in group.commands.items()]
    lines += ["", f"example:\n  {group.example}", ""]
    lines += [f"`{prog} COMMAND --help` has more; `--debug` shows where an error comes from."]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def _parse(options: type[Options], prog: str, args: Sequence[str]) -> Options:
    return tyro.cli(
        options,
        prog=prog,
        args=list(args),
        description=inspect.getdoc(options),
        config=(tyro.conf.PositionalMetavarFromFieldName, tyro.conf.FlagCreatePairsOff),
    )


if __name__ == "__main__":
    sys.exit(main())
