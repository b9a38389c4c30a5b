"""`oatkit tokenizer train`: a dataset in, a self-contained tokenizer artifact out."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.choices import (
    CORRECTION,
    CellsName,
    KindName,
    ReconstructionName,
    TokenizerPresetName,
    kind_help,
    kinds_with,
)
from oatkit.commands.data_cautions import print_cautions
from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.mixture_flags import measure_first, refuse_with_mixture
from oatkit.commands.text_output import print_lines
from oatkit.commands.train_options import TrainFlags, TrainOptions
from oatkit.data import Dataset
from oatkit.data.mixture import Mixture, read_mixture
from oatkit.jobs.mixture_training import train_mixture_tokenizer
from oatkit.jobs.tokenizer_training import train_tokenizer
from oatkit.nn.device import Device
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.kind_table import kind_named
from oatkit.types import Decoding, NormalizationMode

SETTINGS = (
    *("num_tokens", "levels", "budgets", "groups", "refine", "cells", "paths"),
    *("vocab_size", "scale", "reconstruction", "dropout", "decoding"),
    *("early_weight", "overlap_weight"),
)
"""Flags that are settings of some kinds and not of others; None or () leaves the default."""


@dataclass(frozen=True)
class TrainTokenizer:
    """Train an action tokenizer, or fit one of the kinds that need no training.

    Example:
        oatkit tokenizer train --data out/metaworld --kind oat-pow2 --out out/oat-pow2
        oatkit tokenizer train --data out/metaworld --kind klt --correct --out out/klt
        oatkit tokenizer train --data out/metaworld=0.7,out/pusht=0.3 --out out/mixed
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id; or a mixture of several robots with the share of each,
    PATH=0.7,PATH=0.3, or a TOML file with a table for each."""
    out: Path
    """Where to write the artifact; a run that was stopped continues there."""
    kind: KindName = "oat-pow2"
    """Which tokenizer."""
    preset: TokenizerPresetName = "small"
    """Size and training recipe of the learned kinds."""
    horizon: int = 32
    """Number of actions in a chunk."""
    num_tokens: Annotated[
        int | None, arg(help=kind_help("num_tokens", "Number of tokens of a chunk, learned ones"))
    ] = None
    levels: Annotated[tuple[int, ...], arg(help=kind_help("levels", "FSQ levels"))] = ()
    budgets: Annotated[
        tuple[int, ...], arg(help=kind_help("budgets", "Prefix lengths to train", "1 2 4 ..."))
    ] = ()
    groups: Annotated[
        tuple[int, ...],
        arg(help=kind_help("groups", "Where each group of registers ends", "the kind's own")),
    ] = ()
    nested_dropout: Annotated[
        bool,
        arg(
            help=kind_help("nested_dropout", "Train full sequences only", "nested dropout"),
            help_behavior_hint="",
        ),
    ] = True
    refine: Annotated[
        int | None, arg(help=kind_help("refine", "Analytic tokens after the learned ones", "none"))
    ] = None
    early_weight: Annotated[
        float | None,
        arg(
            help=kind_help(
                "early_weight",
                "How many times as much the first action counts in training as the last",
                "1",
            )
        ),
    ] = None
    overlap_weight: Annotated[
        float | None,
        arg(
            help=kind_help(
                "overlap_weight",
                "How much it costs in training that chunks one step apart have different codes",
                "0",
            )
        ),
    ] = None
    cells: Annotated[
        CellsName | None,
        arg(help=kind_help("cells", "How the vectors that a token looks up are found")),
    ] = None
    paths: Annotated[
        int | None,
        arg(help=kind_help("paths", "Paths that encoding keeps between two budgets")),
    ] = None
    correct: Annotated[
        bool,
        arg(help=kind_help("correct", CORRECTION, "off"), help_behavior_hint=""),
    ] = False
    vocab_size: Annotated[
        int | None, arg(help=kind_help("vocab_size", "Vocabulary that the BPE is asked for"))
    ] = None
    scale: Annotated[
        float | None, arg(help=kind_help("scale", "Resolution of the coefficients"))
    ] = None
    reconstruction: Annotated[
        ReconstructionName | None, arg(help=kind_help("reconstruction", "Loss"))
    ] = None
    decoding: Annotated[
        Decoding | None,
        arg(
            help=kind_help(
                "decoding",
                "What becomes of tokens that are no whole chunk: an error, or padded and cut",
                "the preset's, else strict",
            )
        ),
    ] = None
    published: Annotated[Path | None, arg(metavar="DIR")] = None
    """The universal tokenizer as FAST's authors publish it, taken as it is instead of fitting one
    (fast)."""
    dropout: Annotated[
        float | None,
        arg(help=kind_help("dropout", "Share of each residual branch that training drops")),
    ] = None
    normalization: NormalizationMode | None = None
    """How actions are normalized; the kind's own way by default."""
    duration: float | None = None
    """Seconds of a chunk of each robot of a mixture, however many steps they are at its rate; they
    are stretched to --horizon steps. By default --horizon steps of each."""
    embodiment_id: Annotated[bool, arg(help_behavior_hint="(it is told by default)")] = True
    """Whether a learned codec is told which robot of a mixture a chunk is of; use
    --no-embodiment-id to leave that out."""
    held_out: float = 0.1
    """Share of the episodes that is never trained on."""
    split_seed: int = 0
    """Seed of which episodes those are."""
    init: Path | None = None
    """Start from the weights of this artifact; its config and normalizer are kept."""
    device: DeviceFlag = "auto"
    training: TrainFlags = TrainOptions()
    columns: Columns = DatasetOptions()

    def open_data(self, init: ActionTokenizer | None, console: Console) -> Dataset:
        """The dataset, with the columns of the tokenizer to start from unless flags say others."""
        if init is None:
            return self.columns.open(self.data, console)
        return self.columns.open_like(init, self.data, console)

    def settings(self) -> dict[str, Any]:
        """The settings of the kind that the flags change."""
        chosen = {name: getattr(self, name) for name in SETTINGS}
        found = {name: value for name, value in chosen.items() if value not in (None, ())}
        if not self.nested_dropout:
            found["nested_dropout"] = False
        if self.correct:
            found["correct"] = True
        for name in found:
            _require_flag_of_kind(name, self.kind)
        return {"horizon": self.horizon, **found}


def run(options: TrainTokenizer, console: Console) -> int:
    device = announce_device(console, options.device)
    mixture = read_mixture(options.data, **options.columns.arguments(console))
    if mixture is not None:
        return _train_on_mixture(options, mixture, device, console)
    if options.duration is not None:
        raise ValueError("--duration is for a mixture of robots: leave it out")
    if not options.embodiment_id:
        raise ValueError("--no-embodiment-id is for a mixture of robots: leave it out")
    init = None if options.init is None else load_tokenizer(options.init)
    start: dict[str, Any] = {"init": init}
    if options.published is not None and options.kind != "fast":
        raise ValueError(f"--published is for fast, not for {options.kind}: leave it out")
    if init is None:
        start = {
            "config": options.kind,
            "normalization": options.normalization,
            "published": options.published,
            **options.settings(),
        }
    dataset = options.open_data(init, console)
    print_cautions(console, dataset, reads_state=False)
    _note_unused(options.training, options.kind if init is None else init.kind, console)
    train_tokenizer(
        dataset,
        out=options.out,
        preset=options.preset,
        train=options.training.changes(),
        minutes=options.training.minutes,
        held_out=options.held_out,
        split_seed=options.split_seed,
        device=device,
        show_progress=not console.quiet,
        **start,
    )
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    next_command = f"oatkit tokenizer measure {out} --data {data}{options.columns.flags()}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0


def _train_on_mixture(
    options: TrainTokenizer, mixture: Mixture, device: Device, console: Console
) -> int:
    """Train one codec on several robots, and say how each of them is reached."""
    own = {"init": options.init, "published": options.published}
    refuse_with_mixture({**own, "minutes": options.training.minutes})
    tokenizers = train_mixture_tokenizer(
        mixture,
        options.kind,
        options.out,
        preset=options.preset,
        normalization=options.normalization,
        duration=options.duration,
        embodiment_id=options.embodiment_id,
        train=options.training.changes(),
        held_out=options.held_out,
        split_seed=options.split_seed,
        device=device,
        show_progress=not console.quiet,
        **options.settings(),
    )
    for name, tokenizer in tokenizers.items():
        last = tokenizer.extras["rate_distortion"][-1]
        size = f"{tokenizer.horizon} x {tokenizer.action_dim} actions"
        print_lines(console, f"wrote {options.out / name}: {size}, MSE {last['mse']:.3g}")
    print_lines(console, measure_first("tokenizer measure", mixture, options.out))
    return 0


def _note_unused(training: TrainOptions, kind: str, console: Console) -> None:
    """Print which flags of the training have no effect, because the kind is not trained."""
    if kind_named(kind).is_learned:
        return
    default = TrainOptions()
    changed = [name for name, value in vars(training).items() if value != getattr(default, name)]
    unused = [f"--{name.replace('_', '-')}" for name in changed if name not in ("minutes", "seed")]
    if unused:
        print_lines(console, f"note: {kind} is not trained and ignores {', '.join(unused)}")


def _require_flag_of_kind(name: str, kind: str) -> None:
    """Refuse a flag that the kind does not have."""
    owners = kinds_with(name)
    if kind not in owners:
        flag = "no-nested-dropout" if name == "nested_dropout" else name.replace("_", "-")
        raise ValueError(f"--{flag} is for {', '.join(owners)}, not for {kind}: leave it out")
