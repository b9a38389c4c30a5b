"""`oatkit data view`: episodes in the Rerun viewer."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.text_output import print_lines
from oatkit.jobs.dataset_view import view_dataset
from oatkit.tokenizers import load_tokenizer

MAX_EPISODES = 5
"""Episodes that are shown unless --episodes names some."""


@dataclass(frozen=True)
class ViewDataset:
    """Look at episodes in the Rerun viewer: cameras, state, actions, and chunks with their tokens.

    Example:
        oatkit data view out/metaworld --tokenizer out/oat-pow2 --episodes 0:3 --out out/view.rrd
    """

    path: Positional[str]
    """File, folder or hub id (org/name)."""
    out: Annotated[Path | None, arg(metavar="FILE.rrd")] = None
    """Recording to write; without it the viewer is started."""
    tokenizer: Annotated[str | None, arg(metavar="DIR")] = None
    """Also show chunks: the true one, its tokens, and what each budget of them decodes to."""
    stride: int | None = None
    """Frames between two such chunks; half of the tokenizer's horizon by default."""
    cameras: tuple[str, ...] | None = None
    """Cameras to show; all by default."""
    columns: Columns = DatasetOptions()


def run(options: ViewDataset, console: Console) -> int:
    tokenizer = None if options.tokenizer is None else load_tokenizer(options.tokenizer)
    columns = options.columns
    if tokenizer is None:
        dataset = columns.open(options.path, console, allow_nonfinite=True)
    else:
        dataset = columns.open_like(tokenizer, options.path, console)
    if not columns.episodes and len(dataset) > MAX_EPISODES:
        print_lines(
            console,
            f"showing {MAX_EPISODES} of {len(dataset)} episodes; --episodes chooses others",
            style="dim",
        )
        dataset = dataset.subset(range(MAX_EPISODES))
    view_dataset(
        dataset,
        options.out,
        tokenizer=tokenizer,
        stride=options.stride,
        cameras=options.cameras,
        show_progress=not console.quiet,
    )
    if options.out is not None:
        print_lines(console, f"wrote {options.out}", f"next: rerun {shlex.quote(str(options.out))}")
    return 0
