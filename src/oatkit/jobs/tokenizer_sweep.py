"""`oatkit tokenizer sweep`: the paper's ablations of the ordered tokenizer, one JSON, resumable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.jobs.tokenizer_training import (
    TrainTokenizer,
    train_config,
    train_tokenizer,
)
from oatkit.measure import measure_tokenizer
from oatkit.storage.artifact import require_free
from oatkit.storage.records import read_or_begin, write_record
from oatkit.tokenizers.codec import doubling
from oatkit.train import read_log, training_seconds
from oatkit.types import Ablation, SweepRow, TokenizerSweep

LEVELS = ((8, 6, 5), (8, 8, 8), (8, 5, 5, 5), (8, 8, 6, 5), (7, 5, 5, 5, 5))
HORIZONS = (8, 16, 32, 64)
NUM_TOKENS = (1, 2, 4, 8)


@dataclass(frozen=True)
class SweepTokenizer:
    """Train the paper's ablations: FSQ levels, horizon against tokens, nested dropout.

    Example:
        oatkit tokenizer sweep --data out/metaworld --out out/sweep.json
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    out: Annotated[Path, arg(metavar="FILE.json")]
    """The record; tokenizers go into a folder beside it. The same command again goes on."""
    only: Ablation | None = None
    """One of the three; all by default."""
    kind: Literal["oat", "oat-pow2"] = "oat-pow2"
    """Which tokenizer."""
    preset: Literal["tiny", "small", "paper"] = "small"
    """Size and training recipe."""
    steps: int | None = None
    """Training steps of each row; the preset's by default."""
    held_out: float = 0.1
    """Share of the episodes that is never trained on, and measured."""
    split_seed: int = 0
    """Which episodes those are."""
    seed: int = 0
    """Of the initial weights, the samples and everything random in training."""
    columns: Columns = DatasetOptions()


@dataclass(frozen=True)
class Plan:
    """What one row trains."""

    ablation: Ablation
    levels: tuple[int, ...] = (8, 8, 6, 5)
    horizon: int = 32
    num_tokens: int = 16
    nested_dropout: bool = True

    @property
    def name(self) -> str:
        levels = "".join(map(str, self.levels))
        nesting = "" if self.nested_dropout else "-unnested"
        return f"levels{levels}-horizon{self.horizon}-tokens{self.num_tokens}{nesting}"

    def is_same_training(self, row: SweepRow) -> bool:
        """Rows of two ablations may meet in one tokenizer."""
        return all(getattr(row, k) == v for k, v in asdict(self).items() if k != "ablation")


def plans(only: Ablation | None) -> Iterator[Plan]:
    """All rows of the sweep, or those of one ablation."""
    wanted = (only,) if only else get_args(Ablation)
    if "levels" in wanted:
        yield from (Plan("levels", levels=levels) for levels in LEVELS)
    if "horizons" in wanted:
        for horizon in HORIZONS:
            yield from (Plan("horizons", horizon=horizon, num_tokens=n) for n in NUM_TOKENS)
    if "nesting" in wanted:
        yield from (Plan("nesting", nested_dropout=is_nested) for is_nested in (False, True))


def sweep_tokenizer(options: SweepTokenizer, console: Console) -> TokenizerSweep:
    """Train and measure what is missing in the record, writing it anew after every row."""
    if options.out.suffix != ".json":
        raise ValueError(f"--out is {options.out}, expected a name that ends in .json")
    dataset = options.columns.open(options.data)
    free = {"data", "out", "only", "columns"}
    settings = {name: value for name, value in asdict(options).items() if name not in free}
    settings |= {"fingerprint": dataset.fingerprint, "action_dims": dataset.action.names}
    is_begun = options.out.exists()
    sweep = read_or_begin(options.out, TokenizerSweep(str(dataset.path), settings))
    wanted = list(plans(options.only))
    for number, plan in enumerate(wanted, 1):
        console.rule(f"{plan.ablation}: {plan.name} ({number} of {len(wanted)})")
        same = [row for row in sweep.rows if plan.is_same_training(row)]
        if any(row.ablation == plan.ablation for row in same):
            console.print("trained before")
            continue
        if not is_begun:
            require_free(_folder(options, plan), options.out)
        write_record(options.out, sweep)
        row = replace(same[0], ablation=plan.ablation) if same else _train(options, plan, console)
        sweep = replace(sweep, rows=(*sweep.rows, row))
        write_record(options.out, sweep)
    for ablation in dict.fromkeys(plan.ablation for plan in wanted):
        console.print(draw(sweep, ablation))
    return sweep


def _folder(options: SweepTokenizer, plan: Plan) -> Path:
    return options.out.with_suffix("") / plan.name


def _train(options: SweepTokenizer, plan: Plan, console: Console) -> SweepRow:
    wanted = TrainTokenizer(
        data=options.data,
        out=_folder(options, plan),
        kind=options.kind,
        preset=options.preset,
        horizon=plan.horizon,
        num_tokens=plan.num_tokens,
        levels=plan.levels,
        nested_dropout=plan.nested_dropout,
        steps=options.steps,
        held_out=options.held_out,
        split_seed=options.split_seed,
        seed=options.seed,
        columns=options.columns,
    )
    tokenizer = train_tokenizer(wanted, console)
    tokenizer.to("cpu")
    dataset = options.columns.open(options.data)
    held_out = dataset.split(options.held_out, seed=options.split_seed)[1]
    measured = measure_tokenizer(tokenizer, held_out, path=str(wanted.out), split="val")
    return SweepRow(
        **asdict(plan),
        vocab_size=measured.vocab_size,
        num_parameters=measured.num_parameters,
        seconds=training_seconds(read_log(wanted.out), train_config(wanted).batch_size),
        budgets=measured.budgets,
    )


def draw(sweep: TokenizerSweep, ablation: Ablation) -> Text:
    """A row a line: raw error at doubling budgets; for all tokens its ratio to the Gaussian's."""
    rows = [row for row in sweep.rows if row.ablation == ablation]
    budgets = sorted({b for row in rows for b in doubling(row.num_tokens)})
    text = Text(
        f"\n{ablation}: MSE at budgets, and its ratio to the Gaussian reference\n", overflow="fold"
    )
    heads = (*map(str, budgets), "ratio")
    text.append(f"{'':<23}" + "".join(f"{head:>9}" for head in heads) + "\n", style="dim")
    for row in rows:
        mse = {b.budget: b.mse for b in row.budgets if b.budget in doubling(row.num_tokens)}
        end = row.budgets[-1]
        label = {
            "levels": f"{','.join(map(str, row.levels))}: {row.vocab_size} codes",
            "horizons": f"{row.horizon} actions, {row.num_tokens} tokens",
            "nesting": "nested dropout" if row.nested_dropout else "no nested dropout",
        }[ablation]
        numbers = [f"{mse[b]:.2e}" if b in mse else "" for b in budgets]
        numbers.append(f"{end.mse / max(end.gaussian_mse, 1e-30):.2f}")
        text.append(f"{label:<23}" + "".join(f"{n:>9}" for n in numbers) + "\n")
    return text
