"""The paper's ablations of the ordered tokenizer: one JSON that grows row by row.

    sweep = sweep_tokenizer(dataset, "out/sweep.json", only="levels")

`oatkit tokenizer sweep` calls this.

out/sweep.json                                 the record
out/sweep/levels8865-horizon32-tokens16        a tokenizer of each row
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from oatkit.data import Dataset
from oatkit.jobs.row_clock import RowClock
from oatkit.jobs.tokenizer_training import DEFAULT_KIND, train_tokenizer
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.nn.device import Device, resolve_device
from oatkit.presets import tokenizer_preset
from oatkit.storage.artifact import require_free
from oatkit.storage.records import read_or_begin, write_record
from oatkit.train import TrainConfig, asked_settings, read_log, resolve_config, training_seconds
from oatkit.types import Ablation, SweepRow, TokenizerSweep

LEVELS = ((8, 6, 5), (8, 8, 8), (8, 5, 5, 5), (8, 8, 6, 5), (7, 5, 5, 5, 5))
HORIZONS = (8, 16, 32, 64)
NUM_TOKENS = (1, 2, 4, 8)


@dataclass(frozen=True)
class TokenizerAblation:
    """What one row of the sweep trains.

    Attributes:
        ablation: Group of rows that it belongs to.
        levels: FSQ levels.
        horizon: Number of actions in a chunk.
        num_tokens: Number of tokens of a chunk.
        nested_dropout: Whether prefixes are trained.
    """

    ablation: Ablation
    levels: tuple[int, ...] = (8, 8, 6, 5)
    horizon: int = 32
    num_tokens: int = 16
    nested_dropout: bool = True

    @property
    def name(self) -> str:
        """Name of the folder of its tokenizer."""
        levels = "".join(map(str, self.levels))
        nesting = "" if self.nested_dropout else "-unnested"
        return f"levels{levels}-horizon{self.horizon}-tokens{self.num_tokens}{nesting}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its tokenizer."""
        return {name: value for name, value in asdict(self).items() if name != "ablation"}

    def is_same_training(self, row: SweepRow) -> bool:
        """Whether a row of any ablation has this tokenizer."""
        return all(getattr(row, name) == value for name, value in self.settings.items())


def tokenizer_ablations(only: Ablation | None = None) -> Iterator[TokenizerAblation]:
    """All rows of the sweep, or those of one ablation."""
    row = TokenizerAblation
    wanted = (only,) if only else get_args(Ablation)
    if "levels" in wanted:
        yield from (row("levels", levels=levels) for levels in LEVELS)
    if "horizons" in wanted:
        for horizon in HORIZONS:
            yield from (row("horizons", horizon=horizon, num_tokens=n) for n in NUM_TOKENS)
    if "nesting" in wanted:
        yield from (row("nesting", nested_dropout=is_nested) for is_nested in (False, True))


@dataclass(frozen=True)
class TokenizerSweepPlan:
    """What a sweep trains, and how; see `sweep_tokenizer`.

    Attributes:
        dataset: Demonstrations to learn from.
        only: One of the ablations; None for all.
        kind: Name of an ordered kind.
        preset: Size and training recipe.
        train: How each row is trained, where not as the preset says.
        held_out: Share of the episodes that is never trained on, and measured.
        split_seed: Seed of which episodes those are.
        device: Where networks run.
        show_progress: Whether to print what happens and to show bars.
    """

    dataset: Dataset
    only: Ablation | None = None
    kind: str = DEFAULT_KIND
    preset: str = "small"
    train: TrainConfig | Mapping[str, Any] | None = None
    held_out: float = 0.1
    split_seed: int = 0
    device: Device = "cpu"
    show_progress: bool = False

    @property
    def recipe(self) -> TrainConfig:
        return resolve_config(self.train, tokenizer_preset(self.preset).train)

    def rows(self) -> list[TokenizerAblation]:
        """All rows of the sweep."""
        return list(tokenizer_ablations(self.only))

    def settings(self) -> dict[str, Any]:
        """What decides the rows, as JSON values."""
        return {
            **{"kind": self.kind, "preset": self.preset},
            **{"held_out": self.held_out, "split_seed": self.split_seed},
            **recipe_settings(self.train, self.recipe),
            "fingerprint": self.dataset.fingerprint,
            "action_dims": self.dataset.action.names,
        }

    def train_row(self, row: TokenizerAblation, folder: Path) -> SweepRow:
        """Train the tokenizer of a row, unless it is there, and measure it."""
        tokenizer = train_tokenizer(
            self.dataset,
            self.kind,
            folder,
            preset=self.preset,
            train=self.recipe,
            held_out=self.held_out,
            split_seed=self.split_seed,
            device=self.device,
            show_progress=self.show_progress,
            **row.settings,
        )
        tokenizer.to(self.device)
        held_out = self.dataset.split(self.held_out, seed=self.split_seed)[1]
        measured = measure_tokenizer(tokenizer, held_out, path=str(folder), split="val")
        return SweepRow(
            **asdict(row),
            vocab_size=measured.vocab_size,
            num_parameters=measured.num_parameters,
            seconds=training_seconds(read_log(folder), self.recipe.batch_size),
            budgets=measured.budgets,
        )


def sweep_tokenizer(
    dataset: Dataset,
    out: str | os.PathLike[str],
    *,
    only: Ablation | None = None,
    kind: str = DEFAULT_KIND,
    preset: str = "small",
    train: TrainConfig | Mapping[str, Any] | None = None,
    held_out: float = 0.1,
    split_seed: int = 0,
    device: Device = "auto",
    show_progress: bool = False,
) -> TokenizerSweep:
    """Train and measure the rows that the record lacks, writing it anew after every row.

    Args:
        dataset: Demonstrations to learn from.
        out: The record, a JSON file; tokenizers go into a folder beside it.
        only: One of the ablations; all by default.
        kind: Name of an ordered kind.
        preset: Size and training recipe.
        train: How each row is trained: a whole `TrainConfig`, or settings that differ from the
            preset's, such as `{"steps": 500}`.
        held_out: Share of the episodes that is never trained on, and measured.
        split_seed: Seed of which episodes those are.
        device: Where networks run: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        show_progress: Whether to print what happens and to show bars.
    """
    path = json_path(out)
    plan = TokenizerSweepPlan(
        *(dataset, only, kind, preset, train, held_out, split_seed),
        *(resolve_device(device), show_progress),
    )
    console = Console(highlight=False, quiet=not show_progress)
    is_begun = path.exists()
    sweep = read_or_begin(path, TokenizerSweep(str(dataset.path), plan.settings()))
    rows, clock = plan.rows(), RowClock(console)
    for number, row in enumerate(rows, 1):
        console.rule(f"{row.ablation}: {row.name} ({number} of {len(rows)})")
        same = [done for done in sweep.rows if row.is_same_training(done)]
        if any(done.ablation == row.ablation for done in same):
            console.print("trained before")
            continue
        folder = path.with_suffix("") / row.name
        if not is_begun and not same:  # a row of another ablation may have made it just now
            require_free(folder, path)
        write_record(path, sweep)
        found = same[0] if same else plan.train_row(row, folder)
        sweep = replace(sweep, rows=(*sweep.rows, replace(found, ablation=row.ablation)))
        write_record(path, sweep)
        if not same:
            clock.made_one(len(rows) - number)
    return sweep


def json_path(out: str | os.PathLike[str]) -> Path:
    """The path of a record; a `ValueError` unless it ends in .json."""
    path = Path(out)
    if path.suffix != ".json":
        raise ValueError(f"--out is {path}, expected a name that ends in .json")
    return path


def recipe_settings(
    asked: TrainConfig | Mapping[str, Any] | None, recipe: TrainConfig
) -> dict[str, Any]:
    """What a record says of how its rows are trained: steps, seed and what else was asked for."""
    more = {k: v for k, v in asked_settings(asked).items() if k not in ("steps", "seed")}
    return {
        "steps": asked_settings(asked).get("steps"),
        "seed": recipe.seed,
        **{f"train.{name}": value for name, value in more.items()},
    }
