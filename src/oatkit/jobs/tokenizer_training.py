"""`oatkit tokenizer train`: a dataset in, a self-contained tokenizer artifact out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn
from tyro.conf import arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.train_options import changed
from oatkit.data import Chunks, Dataset
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.presets import tokenizer_preset
from oatkit.tokenizers import KINDS, ActionTokenizer, make_config
from oatkit.tokenizers.codec import ChangesAfterStep, FittedCodec, LearnedCodec, trained_part
from oatkit.train import TrainConfig, train
from oatkit.types import NormalizationMode

MAX_CHUNKS_TO_EVALUATE = 2048
CHUNKS_PER_BLOCK = 4096

KindName = Literal["oat", "oat-pow2", "bin", "fast", "quest", "acodec", "klt"]


@dataclass(frozen=True)
class TrainTokenizer:
    """Train an action tokenizer, or fit one of the kinds that need no training.

    Example:
        oatkit tokenizer train --data out/metaworld --kind oat-pow2 --out out/oat-pow2
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Path
    """Where to write the artifact; a run that was stopped goes on from there."""
    kind: KindName = "oat-pow2"
    """Which tokenizer."""
    preset: Literal["tiny", "small", "paper"] = "small"
    """Size and training recipe of the learned kinds."""
    horizon: int = 32
    """Actions in a chunk."""
    num_tokens: int | None = None
    """Tokens a chunk (acodec, klt), learned ones (oat, oat-pow2); 16 by default."""
    levels: tuple[int, ...] = ()
    """FSQ levels (oat, oat-pow2, quest, klt); 8 8 6 5 by default."""
    budgets: tuple[int, ...] = ()
    """Prefix lengths to train (oat, oat-pow2); 1 2 4 ... by default."""
    groups: tuple[int, ...] = ()
    """Where each group of registers ends (oat, oat-pow2); the kind's own by default."""
    nested_dropout: Annotated[bool, arg(help_behavior_hint="(nested dropout by default)")] = True
    """Train whole sequences only (oat, oat-pow2): the ordering ablation."""
    refine: int | None = None
    """Analytic tokens after the learned ones (oat, oat-pow2); none by default."""
    cells: Literal["vector", "scalar"] | None = None
    """What a token looks up (klt): one vector, or one for each level, faster but less exact."""
    vocab_size: int | None = None
    """Asked of the BPE (fast); 2048 by default."""
    scale: float | None = None
    """Resolution of the coefficients (fast); 10 by default."""
    reconstruction: Literal["mse", "l1"] | None = None
    """Loss (quest): MSE as in the paper's comparison, L1 as in QueST."""
    dropout: float | None = None
    """Share of each residual branch that training drops (learned kinds); 0 by default."""
    normalization: NormalizationMode | None = None
    """How actions are normalized; min_max by default, quantiles for fast."""
    held_out: float = 0.1
    """Share of the episodes that is never trained on."""
    split_seed: int = 0
    """Which episodes those are."""
    steps: int | None = None
    """Training steps; the preset's by default."""
    batch_size: int | None = None
    """Chunks a step; the preset's by default."""
    optimizer: Literal["adamw", "soap"] | None = None
    """The preset's by default; the learning rate should fit it."""
    learning_rate: float | None = None
    """The preset's by default."""
    ema: float | None = None
    """Decay of the moving average of the weights, 0 for none; the preset's by default."""
    precision: Literal["float32", "bfloat16"] | None = None
    """Of the computation; float32 by default."""
    accumulate: int | None = None
    """In how many parts a batch is computed."""
    seed: int = 0
    """Of the initial weights, the samples and everything random in training."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; the preset's by default."""
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    """Where else to log."""
    init: Path | None = None
    """Start from the weights of this artifact; its normalizer is kept."""
    columns: Columns = DatasetOptions()


def train_tokenizer(options: TrainTokenizer, console: Console) -> ActionTokenizer:
    """Train or fit what the options say, and save it."""
    tokenizer, train_set, held_out = untrained(options)
    extras: dict[str, Any] = {"split": {"held_out": options.held_out, "seed": options.split_seed}}
    if isinstance(tokenizer.codec, LearnedCodec):
        config = train_config(options)
        job = TokenizerJob(tokenizer, train_set, held_out)
        count = sum(p.numel() for p in job.module.parameters())
        console.print(f"training {tokenizer.kind}: {count:,} parameters, {config.steps:,} steps")
        facts = tokenizer.to_json()
        identity = {name: facts[name] for name in ("kind", "codec", "normalization", "data")}
        train(job, config, options.out, identity=identity)
        extras["train"] = asdict(config)
    if isinstance(tokenizer.codec, FittedCodec):
        console.print(f"fitting {tokenizer.kind} on {train_set.num_frames:,} chunks")
        _fit(tokenizer, tokenizer.codec, train_set)
    extras["rate_distortion"] = rate_distortion(tokenizer, unseen_chunks(tokenizer, held_out))
    tokenizer.extras = extras
    if os.environ.get("RANK", "0") == "0":  # of the processes of `accelerate launch` one writes
        tokenizer.save_pretrained(options.out)
    return tokenizer


def _fit(tokenizer: ActionTokenizer, codec: FittedCodec, train_set: Dataset) -> None:
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("fitting", total=1.0)
        codec.fit(
            lambda: normalized_chunks(tokenizer, train_set),
            lambda share: progress.update(bar, completed=share),
        )
        progress.update(bar, completed=1.0)


def train_config(options: TrainTokenizer) -> TrainConfig:
    """The preset's recipe with what the options change."""
    return changed(tokenizer_preset(options.preset).train, options)


def untrained(options: TrainTokenizer) -> tuple[ActionTokenizer, Dataset, Dataset]:
    """The tokenizer as training begins, the episodes to train on and those held out."""
    dataset = options.columns.open(options.data)
    train_set, held_out = dataset.split(options.held_out, seed=options.split_seed)
    torch.manual_seed(options.seed)
    return _start(options, train_set), train_set, held_out


def _start(options: TrainTokenizer, train_set: Dataset) -> ActionTokenizer:
    if options.init is not None:
        tokenizer = ActionTokenizer.from_pretrained(options.init)
        if tokenizer.action_dim != train_set.action_dim:
            raise ValueError(
                f"{options.init} is for {tokenizer.action_dim} action dimensions, {options.data} "
                f"has {train_set.action_dim}"
            )
        return tokenizer
    config = codec_config(options, train_set.action_dim)
    return ActionTokenizer.for_dataset(config, train_set, options.normalization)


def codec_config(options: TrainTokenizer, action_dim: int) -> Any:
    """The preset's config of the kind with what the options change."""
    names = (
        *("num_tokens", "levels", "budgets", "groups", "refine", "cells", "vocab_size", "scale"),
        *("reconstruction", "dropout"),
    )
    chosen = {name: getattr(options, name) for name in names}
    settings: dict[str, Any] = {k: v for k, v in chosen.items() if v not in (None, ())}
    if not options.nested_dropout:
        settings["nested_dropout"] = False
    for name in settings:
        _require_flag_of_kind(name, options.kind)
    settings = {**tokenizer_preset(options.preset).settings(options.kind), **settings}
    sizes = {"horizon": options.horizon, "action_dim": action_dim}
    return make_config(options.kind, **sizes, **settings)


def _require_flag_of_kind(name: str, kind: str) -> None:
    """Refuse a flag that says nothing to the kind."""
    owners = [k for k, known in KINDS.items() if name in known.settings]
    if kind not in owners:
        flag = "no-nested-dropout" if name == "nested_dropout" else name.replace("_", "-")
        raise ValueError(f"--{flag} is for {', '.join(owners)}, not for {kind}: leave it out")


def normalized_chunks(tokenizer: ActionTokenizer, dataset: Dataset) -> Iterator[Tensor]:
    """All chunks of a dataset in blocks, (B, T, A), normalized."""
    chunks = dataset.chunks(tokenizer.horizon)
    for start in range(0, len(chunks), CHUNKS_PER_BLOCK):
        indices = np.arange(start, min(len(chunks), start + CHUNKS_PER_BLOCK))
        yield _normalized(tokenizer, chunks, indices)


def _normalized(tokenizer: ActionTokenizer, chunks: Chunks, indices: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(tokenizer.normalizer.normalize(chunks.actions(indices)[0]))


class TokenizerJob:
    """Training a learned codec on the chunks of a dataset."""

    def __init__(self, tokenizer: ActionTokenizer, train_set: Dataset, held_out: Dataset) -> None:
        codec = trained_part(tokenizer.codec)
        tokenizer = ActionTokenizer(codec, tokenizer.normalizer, tokenizer.data)
        assert isinstance(tokenizer.codec, nn.Module)
        self.module: nn.Module = tokenizer.codec
        self._tokenizer = tokenizer
        self._chunks = train_set.chunks(tokenizer.horizon)
        self.num_samples = len(self._chunks)
        self._unseen_BTA = unseen_chunks(tokenizer, held_out)

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        return (_normalized(self._tokenizer, self._chunks, indices),)

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        loss: TrainingLoss = self._tokenizer.codec.loss(*batch, random)  # type: ignore[attr-defined]
        return loss

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        if isinstance(self._tokenizer.codec, ChangesAfterStep):
            self._tokenizer.codec.after_step(gather, random)

    def evaluate(self) -> dict[str, float]:
        """Raw mean squared error of held-out chunks at each trained budget."""
        rows = rate_distortion(self._tokenizer, self._unseen_BTA)
        return {f"mse@{row['budget']}": row["mse"] for row in rows}


def unseen_chunks(tokenizer: ActionTokenizer, held_out: Dataset) -> Tensor:
    """Raw held-out chunks, evenly spread, (B, T, A)."""
    chunks = held_out.chunks(tokenizer.horizon)
    count = min(len(chunks), MAX_CHUNKS_TO_EVALUATE)
    return torch.from_numpy(chunks.actions(np.linspace(0, len(chunks) - 1, count).astype(int))[0])


def rate_distortion(tokenizer: ActionTokenizer, actions_BTA: Tensor) -> list[dict[str, float]]:
    """Budget, bits and raw mean squared error of the chunks at each trained budget.

    Where lengths vary, the budget is the mean length.
    """
    state = tokenizer.codec.state_dict().values()
    wanted_BTA = actions_BTA.to(next((tensor.device for tensor in state), "cpu"))
    tokens = tokenizer.encode(wanted_BTA)
    rows = []
    for budget in tokenizer.budgets:
        error_BTA = tokenizer.decode(tokens, budget=budget) - wanted_BTA
        kept = budget if tokenizer.is_fixed_length else float(tokens.lengths.double().mean())
        bits = kept * math.log2(tokenizer.vocab_size)
        rows.append({"budget": kept, "bits": bits, "mse": float(error_BTA.square().mean())})
    return rows
