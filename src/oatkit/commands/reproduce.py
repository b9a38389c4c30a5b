"""`oatkit reproduce`: every table and figure of the paper by one command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, UseAppendAction, arg

from oatkit.commands.benchmark_output import env_options
from oatkit.commands.choices import PaperTableName, ScaleName, ScaleSimulatorName
from oatkit.commands.command_line import command_line
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines, table
from oatkit.errors import MissingExtraError
from oatkit.evaluation.benchmark_presets import benchmark_preset
from oatkit.jobs.paper_reproduction import (
    comparison_reports,
    plan_reproduction,
    record_path,
    reproduce,
)
from oatkit.jobs.paper_tables import TABLES, PaperTable
from oatkit.jobs.reproduction_scales import simulators_of
from oatkit.jobs.reproduction_shards import ReproductionWork
from oatkit.jobs.reproduction_summary import summarize_table
from oatkit.types import PrintedNumbers, ReproducedNumber, Reproduction, budget_name


@dataclass(frozen=True)
class Reproduce:
    """List the paper's tables and figures, or make one again: data, training, evaluation, a page.

    Example:
        oatkit reproduce
        oatkit reproduce light-policies --out out/reproduction
        oatkit reproduce light-policies --env robosuite
        oatkit reproduce light-policies --scale paper --data light-libero=path/to/libero_10
    """

    table: Positional[PaperTableName | None] = None
    """Table or figure; without it all are listed with what they need."""
    scale: ScaleName = "small"
    """tiny: seconds, means nothing; small: MetaWorld on a CPU; paper: its recipes on your data."""
    env: tuple[ScaleSimulatorName, ...] = ()
    """Simulators of the smaller scales, each a column of the table: metaworld, which is the default
    and has the paper's four tasks, robosuite with RoboMimic's lift, can and square. Columns that
    the record has stay."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("out/reproduction")
    """Folder for records, pages and everything trained, which tables share; the same command again
    goes on row by row."""
    only: tuple[str, ...] = ()
    """Rows to make, also those that the paper's table does not have; all of the paper's by
    default."""
    data: UseAppendAction[tuple[str, ...]] = ()
    """BENCHMARK=PATH: your demonstrations of a benchmark of the table (--scale paper), or of
    metaworld, robosuite, either with -images, or doors (smaller scales, which make them
    otherwise), or of pusht or pusht-keypoints."""
    state_key: UseAppendAction[tuple[str, ...]] = ()
    """BENCHMARK=KEY,KEY: parts of praxis-eval's observation that are joined to the state."""
    env_option: UseAppendAction[tuple[str, ...]] = ()
    """KEY=VALUE for praxis-eval's simulators, such as python_bin=PATH for SimplerEnv."""
    backbone: UseAppendAction[tuple[str, ...]] = ()
    """FAMILY=ID_OR_DIR: another checkpoint than the scale's."""
    published: Annotated[Path | None, arg(metavar="DIR")] = None
    """FAST's universal tokenizer, as its authors publish it and the paper uses it; one is fitted on
    the data by default."""
    images: bool = False
    """Let light policies read the simulator's cameras and the arm's state (smaller scales)."""
    episodes: int | None = None
    """Number of episodes of each task; 50, and 1 for tiny, by default."""
    steps: int | None = None
    """Number of training steps of a policy; by default those that the preset has for rows of a
    table."""
    temperatures: tuple[float, ...] = ()
    """Sampling temperatures, all of which are evaluated; 0 at the smaller scales and 1 at the
    paper's by default, which states none."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of policies: a training and its own goals for each. Tokenizers are trained once."""
    workers: int | None = None
    """Number of simulator processes, by default one per core (praxis-eval: one)."""
    device: DeviceFlag = "auto"
    shard: ShardFlag = None


def run(options: Reproduce, console: Console) -> int:
    if options.table is None:
        console.print(render_list(), soft_wrap=True)
        return 0
    wanted = TABLES[options.table]
    if wanted.work == "nothing":
        print_lines(console, f"{wanted.title}: {wanted.shows}", _nothing(wanted), *wanted.shown_by)
        return 0
    device = announce_device(console, options.device)
    how: dict[str, Any] = {
        "scale": options.scale,
        "only": options.only,
        "data": {name: Path(path) for name, path in pairs("data", options.data).items()},
        "simulators": options.env,
        "simulator_keys": {
            name: keys.split(",") for name, keys in pairs("state-key", options.state_key).items()
        },
        "env_kwargs": env_options(options.env_option),
        "backbones": pairs("backbone", options.backbone),
        "published": options.published,
        "images": options.images,
        "episodes": options.episodes,
        "steps": options.steps,
        "temperatures": options.temperatures,
        "seeds": options.seeds,
        "workers": options.workers,
        "device": device,
        "show_progress": not console.quiet,
    }
    if options.shard is not None:
        work = ReproductionWork(
            plan_reproduction(options.table, options.out, may_make=False, **how)
        )
        return run_as_shard(work, options.shard, options.out, console)
    record = reproduce(options.table, options.out, **how)
    console.print(render_reproduction(record, wanted.numbers), soft_wrap=True)
    path = record_path(record, options.out)
    print_lines(console, f"wrote {path}")
    try:
        from oatkit.measure.reports.reproduction_report import write_reproduction_report
    except MissingExtraError as error:
        print_lines(console, f"no page: {error}")
        return 0
    command = command_line("reproduce", options, positional="table")
    page, reports = path.with_suffix(".html"), comparison_reports(record, options.out)
    how = {"beside": wanted.numbers, "reports": reports}
    write_reproduction_report(record, summarize_table(record), wanted.title, page, command, **how)
    print_lines(console, *(f"open {one}" for one in (page, *reports)))
    return 0


def pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    """What NAME=VALUE pairs say."""
    found = {}
    for pair in given:
        name, _, value = pair.partition("=")
        if not name or not value:
            raise ValueError(f"--{flag} {pair!r} is no NAME=VALUE")
        found[name] = value
    return found


def render_list() -> Text:
    """Every table and figure with what it needs and its command."""
    text = Text()
    for name, one in TABLES.items():
        text.append(f"{name}\n", "bold")
        text.append(f"  {one.title}. {one.shows}\n")
        if one.work == "nothing":
            for line in (*one.shown_by, _nothing(one)):
                text.append(f"  {line}\n", "dim")
            continue
        text.append(f"  oatkit reproduce {name}\n", "dim")
        if one.extras:
            text.append(f"  more rows, by --only: {'; '.join(one.extras)}\n", "dim")
        for scale, what in needs(one).items():
            text.append(f"  {scale}: {what}\n", "dim")
    text.rstrip()
    return text


def _nothing(one: PaperTable) -> str:
    return f"nothing to measure: {one.instead}"


def needs(one: PaperTable) -> dict[str, str]:
    """What a table takes at the small scale, in robosuite too, and at the paper's."""
    hours = f"{one.minutes / 60:.2g} hours on two cores by estimate"
    if one.simulator == "pusht":
        data = "your copy of the demonstrations, --data pusht=PATH --data pusht-keypoints=PATH"
        return {"small": f"oatkit[pusht,report], {hours}; {data}"}
    extras = "metaworld,report,vlm" if one.is_large else "metaworld,report"
    backbones = ", backbones with random weights" if one.is_large else ""
    small = f"oatkit[{extras}], {hours}; MetaWorld's demonstrations are made{backbones}"
    found = {"small": small}
    if "robosuite" in simulators_of(one):
        tasks = "RoboMimic's lift, can and square, whose demonstrations are made"
        found["small, robosuite"] = f"oatkit[report,robosuite], {tasks}; --env robosuite"
    drivers = dict.fromkeys(str(benchmark_preset(name).driver) for name in one.benchmarks)
    simulators = f"praxis-eval[{','.join(drivers)}], " if one.work == "policies" else ""
    data = " ".join(f"--data {name}=PATH" for name in one.benchmarks)
    where = "GPUs for the backbones" if one.is_large else "a GPU for training"
    large = f"{simulators}{where}, hours not measured; --scale paper {data}"
    return {**found, "paper": large}


def render_reproduction(record: Reproduction, beside: PrintedNumbers) -> Text:
    """The paper's numbers beside ours, by the name of their benchmark where it is another."""
    rows = [["row", "tokens", "place", "ours", "paper", "", "steps", "temperature", "seed"]]
    rows += [_cells(number, beside) for number in record.numbers]
    text = Text(f"\n{record.table} at the scale {record.settings['scale']}\n")
    return text.append_text(table(rows))


def _cells(number: ReproducedNumber, beside: PrintedNumbers) -> list[str]:
    ours = f"{number.value:.3g}"
    if number.low is not None and number.high is not None:
        ours = f"{number.value:.1f} ({number.low:.0f} - {number.high:.0f})"
    paper = number.paper_words(beside)
    cells = [number.row, budget_name(number.budget), number.place, ours, paper, number.verdict]
    temperature = "" if number.temperature is None else f"{number.temperature:g}"
    return [*cells, str(number.steps), temperature, str(number.seed)]
