"""A dataset in, a trained tokenizer out.

    tokenizer = train_tokenizer(dataset, "oat-pow2", "out/oat-pow2", horizon=16, num_tokens=8)

`oatkit tokenizer train` calls this.

Shape letters: B chunk, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from oatkit.data import Chunks, Dataset, Normalizer
from oatkit.data.dataset import require_opened
from oatkit.jobs.step_planning import (
    chunks_within,
    fitting_seconds,
    planned_steps,
    seconds_per_step,
    steps_within,
)
from oatkit.jobs.working_folder import working_folder
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.presets import tokenizer_preset
from oatkit.tokenizers import ActionTokenizer, load_tokenizer, make_config
from oatkit.tokenizers.codec import (
    ChangesAfterStep,
    FittedCodec,
    LearnedCodec,
    ThinsChunks,
    trained_part,
)
from oatkit.tokenizers.corrected import Corrected
from oatkit.tokenizers.fast import Fast, read_published
from oatkit.tokenizers.rate_distortion import held_out_chunks, rate_distortion
from oatkit.train import TrainConfig, resolve_config, train
from oatkit.train.precision import with_precision
from oatkit.train.training_job import Spread
from oatkit.types import NormalizationMode

CHUNKS_PER_BLOCK = 4096
DEFAULT_KIND = "oat-pow2"
DEFAULT_HORIZON = 32


def train_tokenizer(
    dataset: Dataset,
    config: Any = DEFAULT_KIND,
    out: str | os.PathLike[str] | None = None,
    *,
    preset: str = "small",
    normalization: NormalizationMode | None = None,
    init: ActionTokenizer | str | os.PathLike[str] | None = None,
    published: str | os.PathLike[str] | None = None,
    train: TrainConfig | Mapping[str, Any] | None = None,
    minutes: float | None = None,
    held_out: float = 0.1,
    split_seed: int = 0,
    device: Device = "auto",
    show_progress: bool = False,
    **settings: Any,
) -> ActionTokenizer:
    """Train an action tokenizer, or fit one of the kinds that need no training.

    Args:
        dataset: Demonstrations to learn from.
        config: Name of a kind, or a config of one, such as an `OatConfig`.
        out: Folder for the artifact, its log and its checkpoints; a run that was stopped continues
            there. None keeps nothing on disk.
        preset: Size and training recipe of the learned kinds.
        normalization: How actions are normalized; the kind's own way by default.
        init: Tokenizer, or folder or hub id of one, to start from instead of a config; its
            normalizer is kept.
        published: Folder of FAST's universal tokenizer as its authors publish it, for the kind
            `fast`; it is taken as it is, under the normalizer of the dataset.
        train: How it is trained: a whole `TrainConfig`, or settings that differ from the preset's,
            such as `{"steps": 500}`. Its seed decides the initial weights too.
        minutes: Training time instead of steps, which are counted in a short trial; a kind that is
            fitted gets as many chunks as that time holds.
        held_out: Share of the episodes that is never trained on.
        split_seed: Seed of which episodes those are.
        device: Where it is trained: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        show_progress: Whether to print what happens and to show a bar.
        settings: Settings of the kind that differ from the preset's: `horizon=16, num_tokens=8`.
    """
    require_opened(dataset)
    train_config = resolve_config(train, tokenizer_preset(preset).train)
    split: dict[str, Any] = {"held_out": held_out, "split_seed": split_seed}
    if init is None:
        how = {"preset": preset, "normalization": normalization, "published": published, **split}
        training = prepare_tokenizer(dataset, config, train_config, **how, **settings)
    elif config != DEFAULT_KIND or normalization is not None or published or settings:
        raise ValueError("the tokenizer to start from has its own config: give only --init (init)")
    else:
        training = continue_tokenizer(dataset, init, train_config, **split)
    if minutes is not None:
        training = training.within(minutes, train, out, device)
    with working_folder(out) as folder:
        tokenizer = training.run(folder, device=device, show_progress=show_progress)
    # one of the processes of `accelerate launch` writes
    if out is not None and os.environ.get("RANK", "0") == "0":
        tokenizer.save_pretrained(out)
    return tokenizer


def tokenizer_config(kind: str, action_dim: int, preset: str = "small", **settings: Any) -> Any:
    """A kind's config: the preset's sizes, but for what the settings say."""
    sizes = {"horizon": DEFAULT_HORIZON, **tokenizer_preset(preset).settings(kind)}
    return make_config(kind, action_dim=action_dim, **{**sizes, **settings})


def prepare_tokenizer(
    dataset: Dataset,
    config: Any,
    train: TrainConfig | Mapping[str, Any] | None = None,
    *,
    preset: str = "small",
    normalization: NormalizationMode | None = None,
    published: str | os.PathLike[str] | None = None,
    held_out: float = 0.1,
    split_seed: int = 0,
    **settings: Any,
) -> TokenizerTraining:
    """The training of a new tokenizer before its first step; arguments are `train_tokenizer`'s."""
    train_config = resolve_config(train, tokenizer_preset(preset).train)
    train_set, held_out_set = dataset.split(held_out, seed=split_seed)
    torch.manual_seed(train_config.seed)
    codec_config = config
    if isinstance(config, str):
        codec_config = tokenizer_config(config, dataset.represented_dim, preset, **settings)
    elif settings:
        raise ValueError(f"{', '.join(settings)} can only change a preset, not a config")
    _require_steps_alike(codec_config, dataset)
    tokenizer = ActionTokenizer.for_dataset(codec_config, train_set, normalization)
    if published is not None:
        _use_published(tokenizer, Path(published), settings)
    split = {"held_out": held_out, "seed": split_seed}
    parts = (tokenizer, train_set, held_out_set, train_config, split)
    return TokenizerTraining(*parts, is_fitted=published is not None)


def _require_steps_alike(config: Any, dataset: Dataset) -> None:
    """Refuse `overlap_weight` where a chunk moved by a step is not the chunk one step later."""
    transform = dataset.transform
    is_weighed = getattr(config, "overlap_weight", 0) > 0
    if is_weighed and transform is not None and transform.depends_on_start:
        raise ValueError(
            f"overlap_weight is for actions whose steps mean the same anywhere in a chunk, not for "
            f"{transform}: leave one of both out"
        )


def _use_published(tokenizer: ActionTokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Give a `fast` tokenizer what its authors published, in place of a BPE to fit."""
    if not isinstance(tokenizer.codec, Fast):
        raise ValueError(f"a published tokenizer is one of fast, not of {tokenizer.kind}")
    own = [name for name in ("vocab_size", "scale") if name in settings]
    if own:
        raise ValueError(f"{folder} has its own {' and '.join(own)}: leave them out")
    codec = read_published(folder, horizon=tokenizer.horizon, action_dim=tokenizer.normalizer.dim)
    tokenizer.codec = codec.with_decoding(tokenizer.codec.config.decoding)


def continue_tokenizer(
    dataset: Dataset,
    init: ActionTokenizer | str | os.PathLike[str],
    train_config: TrainConfig,
    held_out: float,
    split_seed: int,
) -> TokenizerTraining:
    """The training of a tokenizer that starts from another one, which stays as it is."""
    train_set, held_out_set = dataset.split(held_out, seed=split_seed)
    torch.manual_seed(train_config.seed)
    tokenizer = copy.deepcopy(init) if isinstance(init, ActionTokenizer) else load_tokenizer(init)
    if tokenizer.action_dim != dataset.action_dim:
        raise ValueError(
            f"{init} is for {tokenizer.action_dim} action dimensions, {dataset.path} has "
            f"{dataset.action_dim}"
        )
    split = {"held_out": held_out, "seed": split_seed}
    return TokenizerTraining(tokenizer, train_set, held_out_set, train_config, split)


@dataclass(frozen=True)
class TokenizerTraining:
    """A tokenizer that is not yet trained, its episodes and its training config.

    Attributes:
        tokenizer: What is trained, in place.
        train_set: Episodes to train on.
        held_out_set: Episodes that are never trained on.
        config: How it is trained.
        split: How the episodes were split, for the artifact.
        is_fitted: Whether there is nothing left to fit.
        max_chunks: Largest number of chunks, evenly spread, that a codec is fitted to; None for
            all.
    """

    tokenizer: ActionTokenizer
    train_set: Dataset
    held_out_set: Dataset
    config: TrainConfig
    split: Mapping[str, Any]
    is_fitted: bool = False
    max_chunks: int | None = None

    def run(
        self, folder: Path, *, device: Device = "auto", show_progress: bool = False
    ) -> ActionTokenizer:
        """Train or fit the tokenizer, and measure it on held-out chunks."""
        tokenizer, codec = self.tokenizer, self.tokenizer.codec
        console = Console(highlight=False, quiet=not show_progress)
        extras: dict[str, Any] = {"split": dict(self.split)}
        if isinstance(codec, LearnedCodec):
            extras["train"] = asdict(self._train(folder, device, console))
            tokenizer.to("cpu")  # only the learned part of it was moved to the device
        if isinstance(codec, FittedCodec) and not self.is_fitted:
            extras["fit"] = {"num_chunks": self._fit(codec, console)}
        if isinstance(codec, Corrected):
            console.print(codec.describe(), soft_wrap=True)
            tokenizer.codec = codec.kept()
        tokenizer.extras = extras
        extras["rate_distortion"] = rate_distortion(
            tokenizer, *held_out_chunks(tokenizer, self.held_out_set)
        )
        return tokenizer

    def within(
        self,
        minutes: float,
        train: TrainConfig | Mapping[str, Any] | None,
        out: str | os.PathLike[str] | None,
        device: Device,
    ) -> TokenizerTraining:
        """The same training with as many steps, or chunks to fit to, as so many minutes hold; see
        `planned_steps`."""
        codec = self.tokenizer.codec
        if not isinstance(codec, LearnedCodec):
            if self.is_fitted or not isinstance(codec, FittedCodec):
                return self
            most = chunks_within(self._try_fit, self._num_chunks, minutes)
            return replace(self, max_chunks=most)
        count = partial(self.affordable_steps, minutes, device)
        steps = planned_steps(minutes, train, out, count)
        return replace(self, config=replace(self.config, steps=steps))

    def affordable_steps(self, minutes: float, device: Device = "auto") -> int:
        """Number of training steps that take so many minutes on a device of this machine."""
        return steps_within(self._trial_job(), self.config, minutes, device)

    def estimate_seconds(self, device: Device = "auto") -> float:
        """About how long training, or fitting, takes on a device of this machine."""
        if isinstance(self.tokenizer.codec, LearnedCodec):
            return self.config.steps * seconds_per_step(self._trial_job(), self.config, device)
        if isinstance(self.tokenizer.codec, FittedCodec) and not self.is_fitted:
            return fitting_seconds(self._try_fit, self._num_chunks)
        return 0.0

    def _trial_job(self) -> TokenizerJob:
        return TokenizerJob(copy.deepcopy(self.tokenizer), self.train_set, self.held_out_set)

    @property
    def _num_chunks(self) -> int:
        """Number of chunks that the codec looks at when it is fitted to all."""
        total, codec = self.train_set.num_frames, self.tokenizer.codec
        return min(total, codec.max_chunks) if isinstance(codec, ThinsChunks) else total

    def _try_fit(self, num_chunks: int) -> None:
        """Fit a copy to so many chunks."""
        codec = copy.deepcopy(self.tokenizer.codec)
        assert isinstance(codec, FittedCodec)
        codec.fit(lambda: normalized_chunks(self.tokenizer, self.train_set, num_chunks))

    def _fit(self, codec: FittedCodec, console: Console) -> int:
        """Fit the codec; returns the number of chunks that it was given."""
        total = self.train_set.num_frames
        # a codec that looks at some chunks is not given the others, which takes time to read
        most = min(self._num_chunks, total if self.max_chunks is None else self.max_chunks)
        count = min(most, total)
        of_all = f" of {total:,}" if count < total else ""
        console.print(f"fitting {self.tokenizer.kind} on {count:,}{of_all} chunks")
        given = most if most < total else None
        chunks = partial(normalized_chunks, self.tokenizer, self.train_set, given)
        fit(codec, chunks, show_progress=not console.quiet)
        return count

    def _train(self, folder: Path, device: Device, console: Console) -> TrainConfig:
        """Train the learned part; returns the config with the precision that it computed in."""
        job = TokenizerJob(self.tokenizer, self.train_set, self.held_out_set)
        config = with_precision(self.config, job.module, resolve_device(device))
        count = sum(p.numel() for p in job.module.parameters())
        steps = f"{config.steps:,} steps"
        console.print(f"training {self.tokenizer.kind}: {count:,} parameters, {steps}")
        facts = self.tokenizer.to_json()
        identity = {name: facts[name] for name in ("kind", "codec", "normalization", "data")}
        how: dict[str, Any] = {"device": device, "show_progress": not console.quiet}
        train(job, config, folder, identity=identity, **how)
        return config


def fit(codec: FittedCodec, chunks: Callable[[], Iterator[Tensor]], show_progress: bool) -> None:
    """Fit a codec on normalized chunks, behind a bar."""
    with Progress(console=Console(stderr=True), disable=not show_progress) as progress:
        bar = progress.add_task("fitting", total=1.0)
        codec.fit(chunks, lambda share: progress.update(bar, completed=share))
        progress.update(bar, completed=1.0)


class NormalizedBatches:
    """Reads batches of normalized chunks; worker processes get it without the codec.

    Args:
        chunks: Chunks of the episodes to train on.
        normalizer: Raw to normalized actions.
    """

    def __init__(self, chunks: Chunks, normalizer: Normalizer) -> None:
        self._chunks = chunks
        self._normalizer = normalizer

    def __call__(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Normalized chunks, (B, T, A)."""
        transform, state_BS = self._normalizer.transform, None
        if transform is not None and transform.needs_state:
            state_BS = self._chunks.start_states(indices)
        actions_BTA = self._chunks.actions(indices)[0]
        return (torch.from_numpy(self._normalizer.normalize(actions_BTA, state_BS)),)


class TokenizerJob:
    """Training a learned codec on the chunks of a dataset."""

    def __init__(
        self, tokenizer: ActionTokenizer, train_set: Dataset, held_out_set: Dataset
    ) -> None:
        codec = trained_part(tokenizer.codec)
        tokenizer = ActionTokenizer(codec, tokenizer.normalizer, tokenizer.data)
        assert isinstance(tokenizer.codec, nn.Module)
        self.module: nn.Module = tokenizer.codec
        self._tokenizer = tokenizer
        chunks = train_set.chunks(tokenizer.horizon)
        self.batch = NormalizedBatches(chunks, tokenizer.normalizer)
        self.num_samples = len(chunks)
        self._held_out = held_out_chunks(tokenizer, held_out_set)

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        """The codec's own loss."""
        loss: TrainingLoss = self._tokenizer.codec.loss(*batch, random)  # type: ignore[attr-defined]
        return loss

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """Let the codec change what gradient descent does not train."""
        if isinstance(self._tokenizer.codec, ChangesAfterStep):
            self._tokenizer.codec.after_step(gather, random)

    def evaluate(self, spread: Spread) -> dict[str, float]:
        """Raw mean squared error of held-out chunks at each trained budget."""
        rows = rate_distortion(self._tokenizer, *self._held_out)
        return {f"mse@{row['budget']}": row["mse"] for row in rows}


def normalized_chunks(
    tokenizer: ActionTokenizer, dataset: Dataset, most: int | None = None
) -> Iterator[Tensor]:
    """The chunks of a dataset in blocks, (B, T, A), normalized; evenly spread if so many at
    most."""
    chunks = dataset.chunks(tokenizer.horizon)
    read = NormalizedBatches(chunks, tokenizer.normalizer)
    indices = np.arange(len(chunks)) if most is None else chunks.spread(most)
    for start in range(0, len(indices), CHUNKS_PER_BLOCK):
        yield read(indices[start : start + CHUNKS_PER_BLOCK])[0]
