"""Every kind of tokenizer on one dataset, measured alike, and a report.

    comparison = compare(dataset, ("oat-pow2", "fast"), "out/compared", horizon=16)

`oatkit tokenizer compare` calls this.

out/comparison.json    the record; grows kind by kind
out/oat-pow2           an artifact of each kind
out/policies/oat-pow2  a policy on its tokens, with `policy_minutes`
out/report.html        all of it to look at
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from oatkit.data import Dataset
from oatkit.data.dataset import require_opened
from oatkit.jobs.comparison_plan import ComparisonPlan
from oatkit.jobs.policy_probe import PolicyProbe
from oatkit.jobs.representation_comparison import RepresentationPlan
from oatkit.jobs.tokenizer_training import (
    DEFAULT_HORIZON,
    train_tokenizer,
)
from oatkit.jobs.working_folder import working_folder
from oatkit.lab import Lab
from oatkit.lab.static_page import choose_places, static_page, write_page
from oatkit.measure.allocation import measure_allocation
from oatkit.measure.encoded_chunks import chunks_to_measure, encode_chunks
from oatkit.measure.gaussian import eigenvalues
from oatkit.measure.properties import measure_properties
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.nn.device import Device, resolve_device
from oatkit.storage.artifact import require_free
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.tokenizers import KINDS, ActionTokenizer, load_tokenizer
from oatkit.tokenizers.codec import doubling
from oatkit.train import TrainConfig, read_log, training_seconds
from oatkit.types import KindComparison, LossPoint, Reconstruction, TokenizerComparison

RECORD = "comparison.json"
REPORT = "report.html"
"""File that `write_comparison_report` writes."""
SAMPLE_QUANTILES = (0.5, 0.8, 0.97)
"""Which held-out chunks are shown, by how much they move."""
MAX_LOSS_POINTS = 50
LAB_CHUNKS = 6
ReportWriter = Callable[[TokenizerComparison, Path], Sequence[Path]]


def compare(
    dataset: Dataset,
    kinds: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    preset: str = "small",
    horizon: int = DEFAULT_HORIZON,
    num_tokens: int = 16,
    levels: Sequence[int] = (8, 8, 6, 5),
    correct: bool = False,
    published: str | os.PathLike[str] | None = None,
    minutes: float | None = None,
    policy_minutes: float | None = None,
    representations: Sequence[str] = (),
    train: TrainConfig | Mapping[str, Any] | None = None,
    held_out: float = 0.1,
    split_seed: int = 0,
    device: Device = "auto",
    command: str = "",
    show_progress: bool = False,
) -> TokenizerComparison:
    """Train or fit every kind of tokenizer on a dataset, and measure all alike.

    Args:
        dataset: Demonstrations to learn from.
        kinds: Names of the kinds; all by default. A later call may add some.
        out: Folder for report, record and artifacts; the same call again goes on. None for none.
        preset: Size and training recipe of the learned kinds.
        horizon: Number of actions in a chunk.
        num_tokens: Number of tokens of a chunk, for the kinds that can choose.
        levels: FSQ levels, for the kinds that have them.
        correct: Whether a learned correction follows the tables of `klt`, where it helps.
        published: Folder of FAST's universal tokenizer, for `fast`; one is fitted by default.
        minutes: Time that the slowest trained kind takes, counted from a short trial: all are
            trained for its steps. Fitted kinds get as many chunks as that time holds.
        policy_minutes: Training time of the slowest of the policies on each kind's tokens, if any.
        representations: Ways to represent actions ("absolute", "delta", ...) to measure too.
        train: A whole `TrainConfig`, or changes of the preset's recipe, such as `{"steps": 500}`.
        held_out: Share of the episodes that is never trained on, and measured.
        split_seed: Seed of which episodes those are.
        device: Where networks run: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        command: What the record says was typed.
        show_progress: Whether to print what happens, with bars.
    """
    require_opened(dataset)
    names = tuple(KINDS) if kinds is None else tuple(kinds)
    sizes = {"horizon": horizon, "num_tokens": num_tokens, "levels": tuple(levels)}
    sizes |= {"correct": True} if correct else {}
    split = {"held_out": held_out, "split_seed": split_seed}
    represented = RepresentationPlan.of(dataset, representations, names)
    given = (minutes, train, resolve_device(device), represented)
    fast = None if published is None else Path(published)
    plan = ComparisonPlan(dataset, names, preset, sizes, split, *given, fast)
    plan.check()
    console = Console(highlight=False, quiet=not show_progress)
    return _run(plan, plan.probe(policy_minutes), out, command, console)


def _run(
    plan: ComparisonPlan,
    probe: PolicyProbe | None,
    out: str | os.PathLike[str] | None,
    command: str,
    console: Console,
) -> TokenizerComparison:
    """Compare the kinds, then the policies on their tokens, and write what there is to see."""
    write_report = None if out is None else _report_writer()
    with working_folder(out) as folder:
        comparison = _compare_kinds(plan, folder, command, console)
        if probe is not None:
            comparison = probe.run(comparison, plan.kinds, folder / RECORD, console)
        if write_report is not None:
            _write_all(write_report, comparison, folder, plan.dataset, console)
    return comparison


def _write_all(
    write_report: ReportWriter,
    comparison: TokenizerComparison,
    folder: Path,
    dataset: Dataset,
    console: Console,
) -> None:
    """Write the lab, then the report that shows it, and say what was written."""
    console.rule("report")
    _write_lab(comparison, folder, dataset)
    written = write_report(comparison, folder)
    listed = ", ".join(path.name for path in (*written, folder / RECORD))
    console.print(f"wrote into {folder}: {listed}", markup=False, soft_wrap=True)


def _compare_kinds(
    plan: ComparisonPlan, out: Path, command: str, console: Console
) -> TokenizerComparison:
    """Compare the kinds that the record lacks, writing it anew after every one."""
    held_out = plan.dataset.split(plan.split["held_out"], seed=plan.split["split_seed"])[1]
    path = out / RECORD
    comparison = replace(read_or_begin(path, begin_comparison(plan, held_out)), command=command)
    done = {k.measurement.kind for k in comparison.kinds}
    done = {kind for kind in done if (out / kind / "config.json").exists()}
    plan.say_duration([kind for kind in plan.kinds if kind not in done], console)
    comparison = _with_steps(comparison, plan, path, console)
    for number, kind in enumerate(plan.kinds, 1):
        console.rule(f"{kind} ({number} of {len(plan.kinds)})")
        folder = out / kind
        if kind in done:
            console.print("compared before")
            continue
        found = compare_kind(comparison, plan, kind, folder, held_out, console)
        kept = (k for k in comparison.kinds if k.measurement.kind != kind)
        kinds = sorted((*kept, found), key=lambda k: list(KINDS).index(k.measurement.kind))
        comparison = replace(comparison, kinds=tuple(kinds))
        write_record(path, comparison)
    known = comparison.representations
    represented = plan.represented.run(known, plan.split, plan.kind_sizes, console.rule)
    comparison = replace(comparison, representations=represented)
    write_record(path, comparison)
    return comparison


def _with_steps(
    comparison: TokenizerComparison, plan: ComparisonPlan, path: Path, console: Console
) -> TokenizerComparison:
    """The record with the steps of all kinds, written where some are new; a kind that is new has to
    have a free folder."""
    new = [kind for kind in plan.kinds if kind not in comparison.steps]
    if not new:
        return comparison
    for kind in new:
        require_free(path.parent / kind, path)
    steps = {**comparison.steps, **plan.steps(comparison.steps, console)}
    comparison = replace(comparison, steps=steps)
    write_record(path, comparison)
    return comparison


def begin_comparison(plan: ComparisonPlan, held_out: Dataset) -> TokenizerComparison:
    """The record before any kind is compared."""
    dataset = plan.dataset
    actions_BTA, is_pad_BT, state_BS = chunks_to_measure(held_out, plan.sizes["horizon"])
    rows = _moving_rows(actions_BTA, is_pad_BT)
    return TokenizerComparison(
        data=str(dataset.path),
        num_episodes=len(held_out),
        dimensions=dataset.action.names,
        std=tuple(dataset.action_statistics().std.tolist()),
        variance=float(eigenvalues(actions_BTA).mean()),
        samples=tuple(map(_rounded, actions_BTA[rows])),
        sample_states=() if state_BS is None else _rounded(state_BS[rows]),
        settings=plan.settings(),
        steps={},
        versions=package_versions(),
    )


def compare_kind(
    comparison: TokenizerComparison,
    plan: ComparisonPlan,
    kind: str,
    folder: Path,
    held_out: Dataset,
    console: Console,
) -> KindComparison:
    """Train or fit one kind, save its artifact and measure it."""
    recipe = plan.recipe(comparison.steps[kind])
    start = time.perf_counter()
    tokenizer = train_tokenizer(
        plan.dataset,
        kind,
        folder,
        preset=plan.preset,
        published=plan.published_of(kind),
        train=recipe,
        minutes=plan.fitting_minutes(kind),
        device=plan.device,
        show_progress=not console.quiet,
        **plan.split,
        **plan.kind_sizes(kind),
    )
    seconds, losses = time.perf_counter() - start, []
    if comparison.steps[kind]:
        log = read_log(folder)
        seconds, losses = training_seconds(log, recipe.batch_size), _mean_losses(log)
    console.print("measuring")
    tokenizer.to(plan.device)
    encoded = encode_chunks(tokenizer, held_out)
    measured = measure_tokenizer(
        tokenizer, held_out, path=str(folder), split="val", encoded=encoded
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


def _moving_rows(
    actions_BTA: NDArray[np.float32], is_pad_BT: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Which chunks without padding move a little, much and most."""
    (unpadded,) = np.nonzero(~is_pad_BT.any(axis=1))
    if not len(unpadded):
        unpadded = np.arange(len(actions_BTA))
    scale_A = np.maximum(actions_BTA.std(axis=(0, 1)), 1e-12)
    moved_B = (actions_BTA[unpadded].std(axis=1) / scale_A).sum(axis=1)
    ranks = (np.array(SAMPLE_QUANTILES) * (len(unpadded) - 1)).astype(int)
    return unpadded[np.argsort(moved_B)[ranks]]


def _reconstructions(
    tokenizer: ActionTokenizer, comparison: TokenizerComparison
) -> tuple[Reconstruction, ...]:
    state_BS = torch.tensor(comparison.sample_states) if tokenizer.needs_state else None
    tokens = tokenizer.encode(torch.tensor(comparison.samples), state_BS)
    return tuple(
        Reconstruction(sample, budget, _rounded(chunk_TA))
        for budget in doubling(tokenizer.max_tokens)
        for sample, chunk_TA in enumerate(tokenizer.decode(tokens, budget=budget).numpy())
    )


def _rounded(chunk_TA: NDArray[np.float32]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{x:.4g}") for x in row) for row in chunk_TA)


def _mean_losses(log: list[dict[str, float]]) -> list[LossPoint]:
    """The mean losses of at most so many stretches of steps as a chart needs."""
    parts = np.array_split(np.arange(len(log)), min(MAX_LOSS_POINTS, len(log)))
    return [
        LossPoint(int(log[part[-1]]["step"]), float(np.mean([log[i]["loss"] for i in part])))
        for part in parts
    ]


def _report_writer() -> ReportWriter:
    """The function that writes the report; says at once what to install if it cannot."""
    from oatkit.measure.reports.comparison_report import write_comparison_report

    return write_comparison_report


def _write_lab(comparison: TokenizerComparison, out: Path, dataset: Dataset) -> None:
    """Write a lab of a few chunks, which the report shows; without images, to keep it small."""
    names = [kind.measurement.kind for kind in comparison.kinds]
    lab = Lab({name: load_tokenizer(out / name) for name in names}, dataset)
    write_page(static_page(lab, choose_places(lab, LAB_CHUNKS), has_images=False), out / "lab")
