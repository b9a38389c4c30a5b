"""`oatkit tokenizer compare`: every kind on one dataset, measured alike, and a report."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.command_line import command_line
from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.data import Dataset
from oatkit.jobs.step_planning import steps_within
from oatkit.jobs.tokenizer_training import (
    KindName,
    TokenizerJob,
    TrainTokenizer,
    codec_config,
    train_config,
    train_tokenizer,
    untrained,
)
from oatkit.lab import Lab
from oatkit.lab.static_page import choose_places, static_page, write_page
from oatkit.measure import measure_tokenizer
from oatkit.measure.allocation import measure_allocation
from oatkit.measure.encoded_chunks import chunks_to_measure, encode_chunks
from oatkit.measure.gaussian import eigenvalues
from oatkit.measure.properties import measure_properties
from oatkit.measure.reports.comparison_findings import cautions, trained
from oatkit.measure.reports.comparison_report import write_comparison_report
from oatkit.storage.artifact import require_free
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.tokenizers import KINDS, ActionTokenizer, load_tokenizer, make_codec
from oatkit.tokenizers.codec import LearnedCodec, doubling
from oatkit.train import read_log, training_seconds
from oatkit.types import KindComparison, LossPoint, Reconstruction, TokenizerComparison

SAMPLE_QUANTILES = (0.5, 0.8, 0.97)
"""Which held-out chunks are shown, by how much they move."""
MAX_LOSS_POINTS = 50
LAB_CHUNKS = 6


@dataclass(frozen=True)
class CompareTokenizers:
    """Train or fit every kind of tokenizer on a dataset, measure all alike, and write a report.

    Example:
        oatkit tokenizer compare --data out/metaworld --out out/compared
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Path
    """Folder for report, JSON and an artifact of each kind; the same command again goes on."""
    kinds: tuple[KindName, ...] = get_args(KindName)
    """Which tokenizers; a later run may add some."""
    preset: Literal["tiny", "small", "paper"] = "small"
    """Size and training recipe of the learned kinds."""
    steps: int | None = None
    """Training steps of each learned kind; the preset's by default."""
    minutes: float | None = None
    """Training time of each learned kind instead: steps are counted from a short timed trial."""
    horizon: int = 32
    """Actions in a chunk."""
    num_tokens: int = 16
    """Tokens a chunk (oat, oat-pow2, acodec, klt)."""
    levels: tuple[int, ...] = (8, 8, 6, 5)
    """FSQ levels (oat, oat-pow2, quest, klt)."""
    batch_size: int | None = None
    """Chunks a step; the preset's by default."""
    learning_rate: float | None = None
    """The preset's by default."""
    held_out: float = 0.1
    """Share of the episodes that is never trained on, and measured."""
    split_seed: int = 0
    """Which episodes those are."""
    seed: int = 0
    """Of the initial weights, the samples and everything random in training."""
    columns: Columns = DatasetOptions()


def compare_tokenizers(options: CompareTokenizers, console: Console) -> TokenizerComparison:
    """Compare what the options say, and write everything into its folder."""
    if not options.kinds:
        raise ValueError("name at least one kind")
    if options.steps is not None and options.minutes is not None:
        raise ValueError("give --steps or --minutes, not both")
    if options.minutes is not None and options.minutes <= 0:
        raise ValueError(f"minutes is {options.minutes}, expected more than 0")
    dataset = options.columns.open(options.data)
    held_out = dataset.split(options.held_out, seed=options.split_seed)[1]
    for kind in options.kinds:  # refuse now what would be refused an hour later
        codec_config(_train_options(options, kind), dataset.action_dim)
    path = options.out / "comparison.json"
    command = command_line("tokenizer compare", options)
    begun = _begin(options, dataset, held_out)
    comparison = replace(read_or_begin(path, begun), command=command)
    for number, kind in enumerate(options.kinds, 1):
        console.rule(f"{kind} ({number} of {len(options.kinds)})")
        folder = options.out / kind
        done = {k.measurement.kind for k in comparison.kinds}
        if kind in done and (folder / "config.json").exists():
            console.print("compared before")
            continue
        if kind not in comparison.steps:
            require_free(folder, path)
            steps = _steps(options, kind, len(comparison.dimensions), console)
            comparison = replace(comparison, steps={**comparison.steps, kind: steps})
            write_record(path, comparison)
        found = _compare_kind(comparison, options, kind, held_out, console)
        kept = (k for k in comparison.kinds if k.measurement.kind != kind)
        order = list(KINDS)
        kinds = sorted((*kept, found), key=lambda k: order.index(k.measurement.kind))
        comparison = replace(comparison, kinds=tuple(kinds))
        write_record(path, comparison)
    write_record(path, comparison)
    console.rule("report")
    _write_lab(comparison, options.out, dataset)
    written = write_comparison_report(comparison, options.out)
    console.print(draw(comparison), soft_wrap=True)
    names = ", ".join(p.name for p in (*written, path))
    console.print(f"wrote into {options.out}: {names}", markup=False, soft_wrap=True)
    return comparison


def _write_lab(comparison: TokenizerComparison, out: Path, dataset: Dataset) -> None:
    """A few chunks to play with, which the report shows; without images, to keep it small."""
    names = [kind.measurement.kind for kind in comparison.kinds]
    lab = Lab({name: load_tokenizer(out / name) for name in names}, dataset)
    write_page(static_page(lab, choose_places(lab, LAB_CHUNKS), has_images=False), out / "lab")


def _begin(options: CompareTokenizers, dataset: Dataset, held_out: Dataset) -> TokenizerComparison:
    free = {"data", "out", "kinds", "columns"}
    settings = {name: value for name, value in asdict(options).items() if name not in free}
    settings |= {"fingerprint": dataset.fingerprint, "action_dims": dataset.action.names}
    recipe = asdict(train_config(_train_options(options, "oat")))
    settings |= {f"train.{name}": value for name, value in recipe.items()}
    actions_BTA, is_pad_BT = chunks_to_measure(held_out, options.horizon)
    return TokenizerComparison(
        data=str(dataset.path),
        num_episodes=len(held_out),
        dimensions=dataset.action.names,
        std=tuple(dataset.action_statistics().std.tolist()),
        variance=float(eigenvalues(actions_BTA).mean()),
        samples=tuple(map(_rounded, _lively(actions_BTA, is_pad_BT))),
        settings=settings,
        steps={},
        versions=package_versions(),
    )


def _lively(actions_BTA: NDArray[np.float32], is_pad_BT: NDArray[np.bool_]) -> list[Any]:
    """Chunks without padding that move a little, much and most."""
    whole_BTA = actions_BTA[~is_pad_BT.any(axis=1)]
    if not len(whole_BTA):
        whole_BTA = actions_BTA
    moved_B = (whole_BTA.std(axis=1) / np.maximum(actions_BTA.std(axis=(0, 1)), 1e-12)).sum(axis=1)
    ranks = (np.array(SAMPLE_QUANTILES) * (len(whole_BTA) - 1)).astype(int)
    return list(whole_BTA[np.argsort(moved_B)[ranks]])


def _train_options(options: CompareTokenizers, kind: KindName) -> TrainTokenizer:
    known = KINDS[kind].config.__dataclass_fields__  # type: ignore[attr-defined]
    own = {name: getattr(options, name) for name in ("num_tokens", "levels") if name in known}
    return TrainTokenizer(
        data=options.data,
        out=options.out / kind,
        kind=kind,
        preset=options.preset,
        horizon=options.horizon,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        held_out=options.held_out,
        split_seed=options.split_seed,
        seed=options.seed,
        columns=options.columns,
        **own,
    )


def _steps(options: CompareTokenizers, kind: KindName, action_dim: int, console: Console) -> int:
    """How long a kind is trained; decided once, so that a resumed run keeps to it."""
    wanted = _train_options(options, kind)
    if not isinstance(make_codec(codec_config(wanted, action_dim)), LearnedCodec):
        return 0
    if options.minutes is None:
        return train_config(wanted).steps
    steps = affordable_steps(wanted, options.minutes)
    console.print(f"{options.minutes:g} minutes are about {steps:,} steps")
    return steps


def affordable_steps(options: TrainTokenizer, minutes: float) -> int:
    """How many training steps fit into so many minutes on this machine."""
    return steps_within(TokenizerJob(*untrained(options)), train_config(options), minutes)


def _compare_kind(
    comparison: TokenizerComparison,
    options: CompareTokenizers,
    kind: KindName,
    held_out: Dataset,
    console: Console,
) -> KindComparison:
    wanted = replace(_train_options(options, kind), steps=comparison.steps[kind] or None)
    start = time.perf_counter()
    tokenizer = train_tokenizer(wanted, console)
    seconds, losses = time.perf_counter() - start, []
    if comparison.steps[kind]:
        log = read_log(wanted.out)
        seconds, losses = training_seconds(log, train_config(wanted).batch_size), _thinned(log)
    console.print("measuring")
    tokenizer.to("cpu")
    encoded = encode_chunks(tokenizer, held_out)
    measured = measure_tokenizer(
        tokenizer, held_out, path=str(wanted.out), split="val", encoded=encoded
    )
    has_prefixes = len(measured.budgets) > 1
    return KindComparison(
        measurement=measured,
        properties=measure_properties(tokenizer, encoded, measured),
        allocation=measure_allocation(tokenizer, encoded, measured) if has_prefixes else None,
        reconstructions=_reconstructions(tokenizer, comparison) if has_prefixes else (),
        seconds=seconds,
        losses=tuple(losses),
    )


def _reconstructions(
    tokenizer: ActionTokenizer, comparison: TokenizerComparison
) -> tuple[Reconstruction, ...]:
    tokens = tokenizer.encode(torch.tensor(comparison.samples))
    return tuple(
        Reconstruction(sample, budget, _rounded(chunk_TA))
        for budget in doubling(tokenizer.max_tokens)
        for sample, chunk_TA in enumerate(tokenizer.decode(tokens, budget=budget).numpy())
    )


def _rounded(chunk_TA: NDArray[np.float32]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{x:.4g}") for x in row) for row in chunk_TA)


def _thinned(log: list[dict[str, float]]) -> list[LossPoint]:
    """Mean losses of stretches of steps."""
    parts = np.array_split(np.arange(len(log)), min(MAX_LOSS_POINTS, len(log)))
    return [
        LossPoint(int(log[part[-1]]["step"]), float(np.mean([log[i]["loss"] for i in part])))
        for part in parts
    ]


def draw(comparison: TokenizerComparison) -> Text:
    """A trained budget a line: its rate, its error and what share of the variance that is."""
    text = Text(overflow="fold")
    headings = ("tokens", "bits", "MSE", "Gaussian", "variance", "seconds")
    text.append(f"{'kind':<10}" + "".join(f"{name:>10}" for name in headings) + "\n", style="dim")
    for kind in comparison.kinds:
        for number, b in enumerate(trained(kind)):
            numbers = (
                *(f"{b.tokens:.3g}", f"{b.bits:.0f}", f"{b.mse:.2e}", f"{b.gaussian_mse:.2e}"),
                *(f"{b.mse / max(comparison.variance, 1e-30):.2%}",),
                *(f"{kind.seconds:,.0f}" if number == 0 else "",),
            )
            name = kind.measurement.kind if number == 0 else ""
            text.append(f"{name:<10}" + "".join(f"{n:>10}" for n in numbers) + "\n")
    for caution in cautions(comparison):
        text.append(f"note: {caution}\n", style="yellow")
    return text
