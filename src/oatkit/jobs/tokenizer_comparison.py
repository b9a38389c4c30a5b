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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from oatkit.data import Dataset
from oatkit.jobs.policy_probe import PolicyProbe
from oatkit.jobs.representation_comparison import RepresentationPlan
from oatkit.jobs.tokenizer_training import (
    DEFAULT_HORIZON,
    TokenizerTraining,
    prepare_tokenizer,
    tokenizer_config,
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
from oatkit.presets import tokenizer_preset
from oatkit.storage.artifact import require_free
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.tokenizers import KINDS, ActionTokenizer, load_tokenizer
from oatkit.tokenizers.codec import doubling
from oatkit.tokenizers.fast import published_digest
from oatkit.tokenizers.kind_table import kind_named
from oatkit.train import TrainConfig, asked_settings, read_log, resolve_config, training_seconds
from oatkit.train.precision import with_precision
from oatkit.types import KindComparison, LossPoint, Reconstruction, TokenizerComparison

RECORD = "comparison.json"
REPORT = "report.html"
"""File that `write_comparison_report` writes."""
SAMPLE_QUANTILES = (0.5, 0.8, 0.97)
"""Which held-out chunks are shown, by how much they move."""
MAX_LOSS_POINTS = 50
MIN_STEPS_TO_ESTIMATE = 500
"""Number of training steps from which it is worth finding out how long they take."""
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
        published: Folder of FAST's universal tokenizer, which `fast` is taken from as it is; one is
            fitted by default.
        minutes: Time that the slowest trained kind takes, counted from a short trial: all are
            trained for its steps, also kinds that a later call adds. Fitted kinds get as many
            chunks as that time holds.
        policy_minutes: Training time of a small policy on the tokens of each kind, which reads the
            state: all for as many steps as the slowest has time for. None trains no policies.
        representations: Ways to represent actions ("absolute", "delta", ...) to measure too.
        train: How the learned kinds are trained: a whole `TrainConfig`, or settings that differ
            from the preset's, such as `{"steps": 500}`.
        held_out: Share of the episodes that is never trained on, and measured.
        split_seed: Seed of which episodes those are.
        device: Where networks run: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        command: What the record says was typed.
        show_progress: Whether to print what happens and to show bars.
    """
    names = tuple(KINDS) if kinds is None else tuple(kinds)
    sizes = {"horizon": horizon, "num_tokens": num_tokens, "levels": tuple(levels)}
    sizes |= {"correct": True} if correct else {}
    split, place = {"held_out": held_out, "split_seed": split_seed}, resolve_device(device)
    represented = RepresentationPlan.of(dataset, representations, names)
    given = (minutes, train, place, represented, None if published is None else Path(published))
    plan = ComparisonPlan(dataset, names, preset, sizes, split, *given)
    plan.check()
    probe = plan.probe(policy_minutes)
    console = Console(highlight=False, quiet=not show_progress)
    write_report = None if out is None else _report_writer()
    with working_folder(out) as folder:
        comparison = _compare_kinds(plan, folder, command, console)
        if probe is not None:
            comparison = probe.run(comparison, names, folder / RECORD, console)
        if write_report is not None:
            _write_all(write_report, comparison, folder, dataset, console)
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


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, and how every kind is trained.

    Attributes:
        dataset: Demonstrations to learn from.
        kinds: Names of the kinds.
        preset: Size and training recipe of the learned kinds.
        sizes: Settings that a kind gets if it has them: `horizon`, `num_tokens`, `levels`,
            `correct`.
        split: How episodes are split: `held_out`, `split_seed`.
        minutes: Time to train the slowest kind, or to fit one, if the recipe does not say the
            steps.
        train: How the learned kinds are trained, where not as the preset says.
        device: Where they are trained and measured.
        represented: The dataset in other representations.
        published: Folder of FAST's universal tokenizer; one is fitted by default.
    """

    dataset: Dataset
    kinds: tuple[str, ...]
    preset: str
    sizes: Mapping[str, Any]
    split: Mapping[str, Any]
    minutes: float | None
    train: TrainConfig | Mapping[str, Any] | None
    device: Device = "cpu"
    represented: RepresentationPlan = RepresentationPlan()
    published: Path | None = None

    def check(self) -> None:
        """Refuse wrong settings now, not after an hour of training."""
        if not self.kinds:
            raise ValueError("name at least one kind with --kinds (kinds)")
        if self.minutes is not None and self.minutes <= 0:
            raise ValueError(f"--minutes is {self.minutes}, expected more than 0")
        if self.minutes is not None and asked_settings(self.train).get("steps") is not None:
            raise ValueError("give --steps or --minutes, not both")
        for kind in self.kinds:
            self.codec_config(kind)
        if "correct" in self.sizes and not any("correct" in self.kind_sizes(k) for k in self.kinds):
            raise ValueError("--correct (correct=True) is for klt, which is not among the kinds")

    def settings(self) -> dict[str, Any]:
        """What must be the same when a comparison goes on."""
        asked = asked_settings(self.train)
        changed = {name: asked.get(name) for name in ("steps", "batch_size", "learning_rate")}
        recipe = self.recipe()
        return {
            **{"preset": self.preset, "minutes": self.minutes, "seed": recipe.seed},
            **changed,
            **self.sizes,
            **self.split,
            "fingerprint": self.dataset.fingerprint,
            "action_dims": self.dataset.action.names,
            **({"actions": str(self.dataset.transform)} if self.dataset.transform else {}),
            **({"published": published_digest(self.published)} if self.published else {}),
            **{f"train.{name}": value for name, value in recipe.settings().items()},
            "train.precision": with_precision(recipe, None, resolve_device(self.device)).precision,
        }

    def recipe(self, steps: int | None = None) -> TrainConfig:
        """How a learned kind is trained, in as many steps as the recipe says or as are given."""
        changes: dict[str, Any] = {"steps": steps} if steps else {}
        if isinstance(self.train, TrainConfig):
            return replace(self.train, **changes)
        preset = tokenizer_preset(self.preset).train
        return resolve_config({**(self.train or {}), **changes}, preset)

    def codec_config(self, kind: str) -> Any:
        """The config of a kind."""
        sizes = self.kind_sizes(kind)
        return tokenizer_config(kind, self.dataset.represented_dim, self.preset, **sizes)

    def steps(self, known: Mapping[str, int], console: Console) -> dict[str, int]:
        """Numbers of steps of the kinds that have none yet: the same for all that are trained.

        Args:
            known: Kind to steps that were decided before, which are kept.
            console: Where to say what was decided.
        """
        missing = [kind for kind in self.kinds if kind not in known]
        learned = [kind for kind in missing if kind_named(kind).is_learned]
        steps = self._equal_steps(learned, known, console) if learned else 0
        return {kind: steps if kind in learned else 0 for kind in missing}

    def _equal_steps(self, kinds: Sequence[str], known: Mapping[str, int], console: Console) -> int:
        """The steps of those before, or what the slowest kind has time for."""
        if self.minutes is None:
            return self.recipe().steps
        before = [steps for steps in known.values() if steps]
        if before:
            console.print(f"{min(before):,} steps, as the kinds that were trained before")
            return min(before)
        counts = {k: self._prepared(k).affordable_steps(self.minutes, self.device) for k in kinds}
        slowest = min(counts, key=lambda kind: counts[kind])
        console.print(
            f"{counts[slowest]:,} steps of each trained kind, so that {slowest}, the slowest, "
            f"takes about {self.minutes:g} minutes",
            soft_wrap=True,
        )
        return counts[slowest]

    def published_of(self, kind: str) -> Path | None:
        """Folder of the published tokenizer that a kind is taken from, if any."""
        return self.published if kind == "fast" else None

    def fitting_minutes(self, kind: str) -> float | None:
        """Time to fit a kind; None where it is trained or taken as it is."""
        is_fitted = not kind_named(kind).is_learned and self.published_of(kind) is None
        return self.minutes if is_fitted else None

    def say_duration(self, kinds: Sequence[str], console: Console) -> None:
        """Say beforehand how long these kinds take, where it is more than a minute."""
        if self.minutes is not None:
            minutes, about = dict.fromkeys(kinds, self.minutes), "at most about"
        elif self.recipe().steps < MIN_STEPS_TO_ESTIMATE:
            return
        else:
            console.print("estimating how long it takes")
            minutes = {k: self._prepared(k).estimate_seconds(self.device) / 60 for k in kinds}
            about = "about"
        total = sum(minutes.values())
        if total > 1:
            parts = ", ".join(f"{kind} {minutes[kind]:.2g}" for kind in kinds)
            note = f"{about} {total:.2g} minutes ({parts}), and measuring comes on top"
            console.print(note, soft_wrap=True)

    def _prepared(self, kind: str) -> TokenizerTraining:
        return prepare_tokenizer(self.dataset, self.codec_config(kind), self.recipe(), **self.split)

    def probe(self, minutes: float | None) -> PolicyProbe | None:
        """How policies are trained on the kinds for so many minutes; None if they are not."""
        if minutes is None:
            return None
        preset = "tiny" if self.preset == "tiny" else "small"
        return PolicyProbe(self.dataset, minutes, preset, self.recipe().seed, self.device)

    def kind_sizes(self, kind: str) -> dict[str, Any]:
        """Those of the sizes that are settings of a kind."""
        known = kind_named(kind).settings
        return {name: value for name, value in self.sizes.items() if name in known}


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
