"""A dataset of any format in, a mended LeRobot v3.0 dataset out.

    convert_dataset(open_dataset("demos.hdf5", actions="unwrap:3-5"), "out/mended", Conversion(...))

`oatkit data convert` calls this. What was converted is kept in `OUT.partial` until the dataset is
whole, so that a conversion that was stopped goes on.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from oatkit.data import Dataset
from oatkit.jobs.conversion_plan import Conversion, ConversionPlan
from oatkit.jobs.conversion_shards import PLAN_IN_DATASET, ConversionWork, merge_conversion
from oatkit.jobs.dataset_folder import make_in_place


def convert_dataset(
    dataset: Dataset, out: Path, wanted: Conversion = Conversion(), *, show_progress: bool = False
) -> Path:
    """Write a dataset as LeRobot v3.0 and return its path.

    Its `transform` is applied to whole episodes: angles are unwrapped, rotations written in another
    form, grippers made binary. `delta` and `relative`, which depend on where a chunk starts, can
    only be declared.

    Args:
        dataset: Dataset of any format.
        out: Folder to write; one that this call has finished already is left as it is.
        wanted: What differs.
        show_progress: Whether to show a bar.
    """
    console = Console(stderr=True, quiet=not show_progress)
    work = ConversionWork(ConversionPlan.of(dataset, wanted), console)
    return make_in_place(work, merge_conversion, out, PLAN_IN_DATASET, console)
