"""A mixture of datasets in, one codec for all of their robots out.

    tokenizers = train_mixture_tokenizer(open_mixture(["a", "b"]), "oat-pow2", "out/mixed")
    tokenizers["a"].encode(actions)

`oatkit tokenizer train --data a=0.7,b=0.3` calls this. The codec, its vocabulary and its weights
are shared. Each robot has a tokenizer of its own around it, with its normalizer, its number of
dimensions and its steps: an ordinary artifact, `out/mixed/a`.

Shape letters: B chunk, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from oatkit.data.mixture import NUM_PLACES, Mixture, even_places
from oatkit.jobs.tokenizer_training import (
    CHUNKS_PER_BLOCK,
    DEFAULT_KIND,
    NormalizedBatches,
    fit,
    tokenizer_config,
)
from oatkit.jobs.working_folder import working_folder
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.presets import tokenizer_preset
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.adaptation import embodied
from oatkit.tokenizers.codec import (
    ChangesAfterStep,
    Codec,
    FittedCodec,
    LearnedCodec,
    ThinsChunks,
    to_shape,
    trained_part,
)
from oatkit.tokenizers.corrected import Corrected
from oatkit.tokenizers.embodiment_rows import for_embodiment
from oatkit.tokenizers.kind_table import kind_named, make_codec
from oatkit.tokenizers.rate_distortion import held_out_chunks, rate_distortion
from oatkit.train import TrainConfig, resolve_config
from oatkit.train import train as run_training
from oatkit.train.precision import with_precision
from oatkit.train.training_job import Spread
from oatkit.types import NormalizationMode


def train_mixture_tokenizer(
    mixture: Mixture,
    kind: str = DEFAULT_KIND,
    out: str | os.PathLike[str] | None = None,
    *,
    preset: str = "small",
    normalization: NormalizationMode | None = None,
    duration: float | None = None,
    embodiment_id: bool = True,
    train: TrainConfig | Mapping[str, Any] | None = None,
    held_out: float = 0.1,
    split_seed: int = 0,
    device: Device = "auto",
    show_progress: bool = False,
    **settings: Any,
) -> dict[str, ActionTokenizer]:
    """Train or fit one codec on several robots; gives a tokenizer for each.

    Args:
        mixture: Demonstrations of the robots.
        kind: Name of a kind.
        out: Folder for an artifact of each robot, the log and the checkpoints; a run that was
            stopped continues there. None keeps nothing on disk.
        preset: Size and training recipe of the learned kinds.
        normalization: How actions are normalized; the kind's own way by default.
        duration: Seconds of a chunk, which is then as many steps as the rate of each robot says,
            stretched to the codec's `horizon`; None for `horizon` steps of each.
        embodiment_id: Whether the codec is told the robot by a learned row for each (`oat`,
            `oat-pow2` without refined tokens, `quest`, `acodec`; the others have no such rows).
        train: How it is trained: a whole `TrainConfig`, or settings that differ from the preset's.
        held_out: Share of the episodes of each dataset that is never trained on.
        split_seed: Seed of which episodes those are.
        device: Where it is trained.
        show_progress: Whether to print what happens and to show a bar.
        settings: Settings of the kind that differ from the preset's.
    """
    if settings.get("overlap_weight"):
        raise ValueError("overlap_weight is for one robot: robots of a mixture differ in a step")
    console = Console(highlight=False, quiet=not show_progress)
    config = resolve_config(train, tokenizer_preset(preset).train)
    train_set, held_out_set = mixture.split(held_out, seed=split_seed)
    torch.manual_seed(config.seed)
    if embodiment_id and "embodiments" in kind_named(kind).settings and not settings.get("refine"):
        settings = {**settings, "embodiments": mixture.names}
    codec_config = tokenizer_config(kind, mixture.represented_dim, preset, **settings)
    codec, mode = make_codec(codec_config), normalization or kind_named(kind).normalization
    tokenizers = _untrained(codec, train_set, mode, duration)
    batches = MixtureBatches(train_set, tokenizers)
    extras: dict[str, Any] = {"split": {"held_out": held_out, "seed": split_seed}}
    if isinstance(codec, LearnedCodec):
        job = MixtureJob(tokenizers, batches, held_out_set)
        extras["train"] = _train(job, config, mixture, tokenizers, out, device, console)
    if isinstance(codec, FittedCodec):
        console.print(f"fitting {kind} on {batches.count:,} chunks of {', '.join(mixture.names)}")
        fit(codec, batches.blocks, show_progress)
    if isinstance(codec, Corrected):
        _keep_correction(codec, tokenizers, console)
    _finish(tokenizers, mixture, held_out_set, extras, out)
    return tokenizers


def _keep_correction(
    codec: Corrected, tokenizers: Mapping[str, ActionTokenizer], console: Console
) -> None:
    """Say where the correction helps, and leave it out where it helps nowhere."""
    console.print(codec.describe(), soft_wrap=True)
    for tokenizer in tokenizers.values():
        tokenizer.codec = codec.kept()


def _untrained(
    codec: Codec, train_set: Mixture, mode: NormalizationMode, duration: float | None
) -> dict[str, ActionTokenizer]:
    """A tokenizer for each robot around one codec that is not trained yet."""
    steps = {m.name: _num_steps(m.dataset.fps, m.name, duration) for m in train_set.members}
    return {
        m.name: embodied(
            ActionTokenizer,
            for_embodiment(codec, m.name),
            m.dataset,
            mode,
            steps[m.name] or codec.config.horizon,
        )
        for m in train_set.members
    }


def _train(
    job: MixtureJob,
    config: TrainConfig,
    mixture: Mixture,
    tokenizers: Mapping[str, ActionTokenizer],
    out: str | os.PathLike[str] | None,
    device: Device,
    console: Console,
) -> dict[str, Any]:
    """Train the codec; gives how, with the precision that it computed in."""
    config = with_precision(config, job.module, resolve_device(device))
    kind = next(iter(tokenizers.values())).kind
    console.print(f"training {kind} on {', '.join(mixture.names)}: {config.steps:,} steps")
    with working_folder(out) as folder:
        how: dict[str, Any] = {"device": device, "show_progress": not console.quiet}
        run_training(job, config, folder, identity=_identity(mixture, tokenizers), **how)
    for tokenizer in tokenizers.values():
        tokenizer.to("cpu")
    return asdict(config)


def _finish(
    tokenizers: Mapping[str, ActionTokenizer],
    mixture: Mixture,
    held_out_set: Mixture,
    extras: Mapping[str, Any],
    out: str | os.PathLike[str] | None,
) -> None:
    """Measure each robot on its own held-out chunks, and write its artifact."""
    shares = dict(zip(mixture.names, mixture.shares.tolist(), strict=True))
    for name, tokenizer in tokenizers.items():
        tokenizer.extras = {
            **extras,
            "mixture": {"embodiment": name, "shares": shares},
            "rate_distortion": rate_distortion(
                tokenizer, *held_out_chunks(tokenizer, held_out_set[name])
            ),
        }
        # one of the processes of `accelerate launch` writes
        if out is not None and os.environ.get("RANK", "0") == "0":
            tokenizer.save_pretrained(Path(out) / name)


def _num_steps(fps: float | None, name: str, duration: float | None) -> int | None:
    """Number of steps of a chunk of a robot; None for those of the codec."""
    if duration is None:
        return None
    if fps is None:
        raise ValueError(f"--duration needs the frames a second of {name!r}: give its fps")
    steps = round(duration * fps)
    if steps < 2:
        raise ValueError(
            f"a chunk of {duration:g} s has {steps} steps of {name!r} at {fps:g} fps, expected 2 "
            "or more: give a longer --duration"
        )
    return steps


def _identity(mixture: Mixture, tokenizers: Mapping[str, ActionTokenizer]) -> dict[str, Any]:
    """What is trained on what; a checkpoint of something else is refused."""
    written = {name: tokenizer.to_json() for name, tokenizer in tokenizers.items()}
    first = next(iter(written.values()))
    return {
        "kind": first["kind"],
        "codec": first["codec"],
        "shares": mixture.shares.tolist(),
        "embodiments": {
            name: {key: facts[key] for key in ("normalization", "data")} | {"horizon": t.horizon}
            for (name, facts), t in zip(written.items(), tokenizers.values(), strict=True)
        },
    }


class MixtureBatches:
    """Reads batches of chunks of all robots in the codec's shape, and which dimensions are real.

    Args:
        mixture: Episodes to train on.
        tokenizers: Tokenizer of each robot, all of one codec.
    """

    def __init__(self, mixture: Mixture, tokenizers: Mapping[str, ActionTokenizer]) -> None:
        self._mixture = mixture
        self._read, self._num_chunks, self._dims = [], [], []
        for member in mixture.members:
            tokenizer = tokenizers[member.name]
            chunks = member.dataset.chunks(tokenizer.horizon)
            self._read.append(NormalizedBatches(chunks, tokenizer.normalizer))
            self._num_chunks.append(len(chunks))
            self._dims.append(tokenizer.normalizer.dim)
            config = tokenizer.codec.config
            self._shape = (int(config.horizon), int(config.action_dim))
            codec = tokenizer.codec
        most = codec.max_chunks if isinstance(codec, ThinsChunks) else self.count
        self._num_fitted = min(self.count, most)

    @property
    def count(self) -> int:
        """Number of chunks of all datasets."""
        return sum(self._num_chunks)

    def __call__(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Normalized chunks (B, T, A) at places of the mixture, the weight (B, A) of their
        dimensions, and the number (B,) of their robot. The weight is 0 for padding, and as much
        more for the others, so that all robots weigh alike."""
        member_B, chunk_B = self._mixture.locate(indices, self._num_chunks)
        actions_BTA = torch.zeros(len(indices), *self._shape)
        weight_BA = torch.zeros(len(indices), self._shape[1])
        for member, (read, dim) in enumerate(zip(self._read, self._dims, strict=True)):
            (rows,) = np.nonzero(member_B == member)
            if len(rows):
                own = torch.from_numpy(rows)
                actions_BTA[own] = to_shape(read(chunk_B[rows])[0], self._shape)
                weight_BA[own, :dim] = self._shape[1] / dim
        return actions_BTA, weight_BA, torch.from_numpy(member_B)

    def blocks(self) -> Iterator[Tensor]:
        """Chunks by weight, as many as there are or as the codec looks at, in blocks (B, T, A)."""
        for start in range(0, self._num_fitted, CHUNKS_PER_BLOCK):
            some = np.arange(start, min(self._num_fitted, start + CHUNKS_PER_BLOCK))
            yield self(even_places(some, self._num_fitted))[0]


class MixtureJob:
    """Training a learned codec on the chunks of several robots.

    Args:
        tokenizers: Tokenizer of each robot, all of one codec.
        batches: Reads the chunks to train on.
        held_out_set: Episodes that are never trained on.
    """

    def __init__(
        self,
        tokenizers: Mapping[str, ActionTokenizer],
        batches: MixtureBatches,
        held_out_set: Mixture,
    ) -> None:
        codec = trained_part(next(iter(tokenizers.values())).codec)
        assert isinstance(codec, nn.Module)
        assert isinstance(codec, LearnedCodec)
        self.module: nn.Module = codec
        self.batch = batches
        self.num_samples = NUM_PLACES
        self._codec: LearnedCodec = codec
        self._is_told = bool(getattr(codec.config, "embodiments", ()))
        self._tokenizers = {
            name: ActionTokenizer(
                for_embodiment(codec, name), t.normalizer, t.data, horizon=t.horizon
            )
            for name, t in tokenizers.items()
        }
        self._held_out = {
            name: held_out_chunks(tokenizer, held_out_set[name])
            for name, tokenizer in tokenizers.items()
        }

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        """The codec's own loss, of real dimensions."""
        actions_BTA, weight_BA, member_B = batch
        told = {"embodiment_B": member_B} if self._is_told else {}
        return self._codec.loss(actions_BTA, random, weight_BA, **told)

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """Let the codec change what gradient descent does not train."""
        if isinstance(self._codec, ChangesAfterStep):
            self._codec.after_step(gather, random)

    def evaluate(self, spread: Spread) -> dict[str, float]:
        """Raw mean squared error of held-out chunks of each robot at each trained budget."""
        return {
            f"{name} mse@{row['budget']}": row["mse"]
            for name, tokenizer in self._tokenizers.items()
            for row in rate_distortion(tokenizer, *self._held_out[name])
        }
