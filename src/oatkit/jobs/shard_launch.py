"""A command, or work of one's own, in shards on an engine; or one training on several machines.

    oatkit.launch("policy eval out/policy --out out/eval", on="slurm:cluster.toml", shards=64)
    oatkit.launch("policy train ... --out out/policy", on="slurm:cluster.toml", nodes=2, gpus=8)
    oatkit.launch(Squares(), merge=join, out="out/squares", on="local:4")

`oatkit launch` calls this.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from oatkit.jobs.shard_table import MERGES
from oatkit.shards import Merge, ShardNumber, Work, merge_folder
from oatkit.shards.launchers.launcher import CommandTask, Task, WorkTask
from oatkit.shards.launchers.launching import Engine, Progress, finished_units, wait_for
from oatkit.shards.launchers.torch_nodes import TorchNodes

TRAININGS = ("tokenizer train", "policy train")
"""Commands that several machines run as one."""
KEPT = "finished units are kept, the same command again goes on"


def launch(
    work: str | Sequence[str] | Work,
    *,
    on: str = "local:2",
    out: str | os.PathLike[str] | None = None,
    merge: Merge | None = None,
    shards: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    nodes: int | None = None,
    gpus: int = 1,
    config: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Run a command or some work in shards, and join what they wrote; returns the path of that.

    Args:
        work: An `oatkit` command with its `--out`, as a text or as words, or a work of your own.
        on: Engine: `local:4` for processes, `slurm:cluster.toml`, or `ray:auto`.
        out: Folder that all shards share; a command names its own.
        merge: What joins the results of a work of your own.
        shards: Number of shards; as many as processes on `local` by default.
        num_cpus: Cores that a shard needs (Ray).
        num_gpus: GPUs that a shard needs (Ray).
        nodes: Number of machines of one training, instead of shards.
        gpus: GPUs of each of these machines.
        config: File of Accelerate's settings for that training, such as those of FSDP.
        progress: Called with the number of finished units and of all while shards run.
    """
    engine = Engine.parse(on, num_cpus=num_cpus, num_gpus=num_gpus)
    if nodes is not None and shards is not None:
        raise ValueError("--nodes and --shards are two things: machines of one training, or parts")
    if nodes is None and (gpus != 1 or config is not None):
        raise ValueError("--gpus and --config are for --nodes; --num-gpus is for shards")
    if isinstance(work, str | Sequence):
        if out is not None or merge is not None:
            raise ValueError("out and merge are for work of your own: a command has its --out")
        words = _words(work)
        if nodes is not None:
            return _train(words, engine, nodes, gpus, config)
        name = _work_name(words)
        folder = _out(words)
        count = engine.num_shards(shards)
        tasks: list[Task] = [
            CommandTask.of([*words, "--shard", f"{index}/{count}"]) for index in range(count)
        ]
        merges = {name: MERGES[name]}
    else:
        if out is None or merge is None:
            raise ValueError("work of your own needs out, its folder, and merge, which joins it")
        folder, count, merges = Path(out), engine.num_shards(shards), {work.name: lambda: merge}
        tasks = [WorkTask(work, ShardNumber(index, count), folder) for index in range(count)]
    show = progress or (lambda *_: None)
    wait_for(engine.start(tasks, folder), "shard", KEPT, lambda: show(*finished_units(folder)))
    return merge_folder(folder, merges)


def _train(
    words: Sequence[str],
    engine: Engine,
    nodes: int,
    gpus: int,
    config: str | os.PathLike[str] | None,
) -> Path:
    """Run one training on several machines; returns the folder of what it trains."""
    name = " ".join(words[:2])
    if name not in TRAININGS:
        raise ValueError(f"{name!r} is no training; --nodes is for {' and '.join(TRAININGS)}")
    out = _out(words)
    machines = TorchNodes(tuple(words), nodes, gpus, None if config is None else Path(config))
    then = f"checkpoints in {out} are kept, the same command again goes on"
    wait_for(engine.start_nodes(machines, out), "node", then, together=True)
    return out


def _words(command: str | Sequence[str]) -> list[str]:
    words = shlex.split(command) if isinstance(command, str) else list(command)
    return words[1:] if words[:1] == ["oatkit"] else words


def _work_name(words: Sequence[str]) -> str:
    """The work that a command is."""
    for name in MERGES:
        if list(words[: len(name.split())]) == name.split():
            return name
    asked = " ".join(words[:3])
    raise ValueError(f"{asked!r} is not cut into shards; these are: {', '.join(MERGES)}")


def _out(words: Sequence[str]) -> Path:
    if "--shard" in words:
        raise ValueError("leave --shard out: launch gives each shard its own")
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, _, value = word.partition("=")
        if flag == "--out" and (value or following):
            return Path(value or following)
    raise ValueError("name the folder with --out in the command after --")
