"""`oatkit data convert`: a dataset of any format, mended, as LeRobot v3.0."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import DatasetOptions
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines
from oatkit.data import open_dataset
from oatkit.jobs.conversion_plan import Conversion, ConversionPlan
from oatkit.jobs.conversion_shards import ConversionWork
from oatkit.jobs.dataset_conversion import convert_dataset


@dataclass(frozen=True)
class ConvertDataset:
    """Write a dataset of any format as LeRobot v3.0: mended, resampled, or only a part of it.

    Example:
        oatkit data convert demos.hdf5 --out out/mended --actions unwrap:3-5 --resample 20
        oatkit data convert my_dataset --out out/shifted --shift-actions 1 --cameras front=top
    """

    path: Positional[str]
    """File, folder or hub id (org/name)."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder to write; a conversion that was stopped goes on there."""
    conversion: Annotated[Conversion, arg(name="")] = Conversion()
    columns_read: Annotated[DatasetOptions, arg(name="")] = DatasetOptions()
    shard: ShardFlag = None


def run(options: ConvertDataset, console: Console) -> int:
    read = options.columns_read
    dataset = read.open(options.path, console, allow_nonfinite=True)
    conversion = options.conversion
    if dataset.transform is not None and not read.actions:  # what it declares, it goes on declaring
        declared = conversion.declare or (str(dataset.transform),)
        conversion = replace(conversion, declare=declared)
        dataset = dataset.represented_as(None)
    if options.shard is not None:
        work = ConversionWork(ConversionPlan.of(dataset, conversion))
        return run_as_shard(work, options.shard, options.out, console)
    out = convert_dataset(dataset, options.out, conversion, show_progress=not console.quiet)
    made = open_dataset(out, cache_dir=read.cache)
    print_lines(
        console,
        f"wrote {out}: {len(made)} episodes, {made.num_frames:,} frames at {made.fps:g} fps",
        f"next: oatkit data check {shlex.quote(str(out))}",
    )
    return 0
