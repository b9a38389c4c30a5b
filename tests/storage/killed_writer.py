"""Kills a process again and again while it writes two artifacts over each other.

python -m tests.storage.killed_writer FOLDER NUM_KILLS

Prints how many kills found the folder in each state; an artifact that is a mixture is an error.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from oatkit.storage.artifact import (
    COMPLETE,
    WRITING,
    local_folder,
    read_artifact,
    replacing,
    write_artifact,
)

SIZES = {"first": 40_000, "second": 70_000}


def write(folder: Path, name: str) -> None:
    """An artifact in an artifact, as policies hold their tokenizers; all of it named `name`."""
    size = SIZES[name]
    config = {"schema": "oatkit/policy", "version": 1, "name": name}
    with replacing(folder) as aside:
        inner = {**config, "schema": "oatkit/tokenizer"}
        write_artifact(aside / "tokenizer", inner, {"w": torch.full((size,), size)}, name)
        files = {"bytes.txt": name.encode()}
        write_artifact(aside, config, {"w": torch.full((size,), size)}, name, files)


def names_in(folder: Path) -> set[Any]:
    """The names that the parts of the artifact in a folder have; one where it is whole."""
    found: set[Any] = set()
    path = local_folder(folder)
    for what, part in (("policy", path), ("tokenizer", path / "tokenizer")):
        config, state = read_artifact(part, what, 1)
        assert (state["w"] == len(state["w"])).all()
        by_size = {size: name for name, size in SIZES.items()}
        found |= {config["name"], by_size[len(state["w"])], (part / "README.md").read_text()}
    return found | {(path / "bytes.txt").read_text()}


def main(folder: Path, num_kills: int) -> None:
    torch.set_num_threads(1)  # a forked process waits for ever for the threads of its parent
    rng, found = random.Random(0), Counter[str]()
    write(folder, "first")
    began = time.monotonic()
    write(folder, "second")
    took = time.monotonic() - began
    (folder / "checkpoints").mkdir()
    (folder / "train.jsonl").write_text("{}\n")
    for _ in range(num_kills):
        writer = os.fork()
        if writer == 0:
            while True:
                for name in SIZES:
                    write(folder, name)
        time.sleep(rng.uniform(0, 3 * took))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        found["half written"] += any(folder.glob(f"{WRITING}*"))
        found["half moved"] += (folder / COMPLETE).exists()
        (name,) = names_in(folder)
        found[name] += 1
        assert not (folder / COMPLETE).exists()
        assert (folder / "checkpoints").exists()
        assert (folder / "train.jsonl").exists()
    write(folder, "first")
    assert not list(folder.glob(".*")), "leftovers of killed writers are still there"
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
