"""`oatkit vlm scratch`: a small backbone with random weights."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.choices import FamilyName
from oatkit.commands.text_output import print_lines
from oatkit.errors import OatkitError
from oatkit.jobs.backbone_check import TASKS
from oatkit.policies.vlm.backbones.family import ScratchSize


@dataclass(frozen=True)
class WriteScratch:
    """Write a small backbone with random weights, to try everything without a download.

    Example:
        oatkit vlm scratch --family qwen3-vl --out out/qwen-scratch
    """

    family: FamilyName
    """Family of the backbone."""
    out: Path
    """Where to write the checkpoint."""
    seed: int = 0
    """Seed of the weights."""
    texts: tuple[str, ...] = TASKS
    """Texts that its vocabulary is made from; it reads any text."""
    size: Annotated[ScratchSize, arg(name="")] = ScratchSize()


def run(options: WriteScratch, console: Console) -> int:
    from oatkit.policies.vlm.backbones.loading import write_scratch

    if (options.out / "config.json").exists():
        raise OatkitError(f"{options.out} holds a checkpoint already: name another --out")
    write_scratch(options.family, options.out, options.size, options.texts, options.seed)
    next_command = f"oatkit vlm check {shlex.quote(str(options.out))}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0
