"""`oatkit tokenizer adapt`: a trained tokenizer for another robot, without training."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.text_output import print_lines, table
from oatkit.tokenizers import load_tokenizer


@dataclass(frozen=True)
class AdaptTokenizer:
    """Fit the normalizer and the mask of a trained tokenizer to another robot, and nothing else.

    Example:
        oatkit tokenizer adapt out/mixed/pusht --data my_dataset --out out/mixed/mine
    """

    tokenizer: Positional[Path]
    """Tokenizer of a robot with at least as many dimensions, such as one out of a mixture."""
    data: Annotated[str, arg(metavar="PATH")]
    """Dataset of the other robot: file, folder or hub id."""
    out: Path
    """Where to write the artifact."""
    horizon: int | None = None
    """Number of actions in a chunk of this robot, stretched to those of the tokenizer; as many by
    default."""
    columns: Columns = DatasetOptions()


def run(options: AdaptTokenizer, console: Console) -> int:
    dataset = options.columns.open(options.data, console)
    tokenizer = load_tokenizer(options.tokenizer).adapt(dataset, options.horizon)
    tokenizer.save_pretrained(options.out)
    variance = float((dataset.action_statistics().std ** 2).mean())
    rows = [("tokens", "MSE", "of the variance of actions")]
    for row in tokenizer.extras["rate_distortion"]:
        share = row["mse"] / max(variance, 1e-30)
        rows.append((f"{row['budget']:g}", f"{row['mse']:.3g}", f"{share:.1%}"))
    console.print(table(rows), soft_wrap=True)
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    next_command = f"oatkit tokenizer measure {out} --data {data}{options.columns.flags()}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0
