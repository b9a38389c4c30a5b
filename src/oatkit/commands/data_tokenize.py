"""`oatkit data tokenize`: the tokens of a dataset, written ahead of training."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines
from oatkit.jobs.artifact_split import select_episodes
from oatkit.jobs.token_cache import cached_tokens, token_paths
from oatkit.jobs.token_shards import TokenWork
from oatkit.tokenizers import load_tokenizer


@dataclass(frozen=True)
class TokenizeDataset:
    """Encode the chunks that a policy will be trained on, into the cache that training reads.

    Example:
        oatkit data tokenize out/metaworld --tokenizer out/oat-pow2
    """

    path: Positional[str]
    """File, folder or hub id (org/name)."""
    tokenizer: Annotated[str, arg(metavar="DIR")]
    """Tokenizer artifact. Its training episodes are encoded, as policies train on the same."""
    held_out: float | None = None
    """Share of the episodes that the policy will not be trained on; the tokenizer's by default."""
    split_seed: int = 0
    """Seed of which episodes those are, with --held-out."""
    shard: ShardFlag = None
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Folder of the shards, with --shard."""
    device: DeviceFlag = "auto"
    columns: Columns = DatasetOptions()


def run(options: TokenizeDataset, console: Console) -> int:
    if (options.shard is None) != (options.out is None):
        raise ValueError("--shard and --out belong together: give both, or neither")
    device = announce_device(console, options.device)
    tokenizer = load_tokenizer(options.tokenizer, device=device)
    dataset = options.columns.open_like(tokenizer, options.path, console)
    if options.held_out is None:
        train_set = select_episodes(tokenizer.extras, dataset, "train")
    else:
        train_set = dataset.split(options.held_out, seed=options.split_seed)[0]
    if options.shard is not None and options.out is not None:
        return run_as_shard(TokenWork(tokenizer, train_set), options.shard, options.out, console)
    table = cached_tokens(tokenizer, train_set)
    ids_path, _ = token_paths(tokenizer, train_set)
    data, made = shlex.quote(options.path), shlex.quote(options.tokenizer)
    print_lines(
        console,
        f"{len(table):,} chunks are encoded in {ids_path}",
        f"next: oatkit policy train --data {data} --tokenizer {made} --out out/policy"
        f"{options.columns.flags()}",
    )
    return 0
