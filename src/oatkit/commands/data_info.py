"""`oatkit data info`: a dataset at a glance."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.record_output import write_result
from oatkit.commands.text_output import print_lines
from oatkit.data.info import summarize_dataset
from oatkit.types import DatasetInfo, DimensionSummary

BARS = " ▁▂▃▄▅▆▇█"
MAX_TASKS_SHOWN = 10
MAX_DIMENSIONS_SHOWN = 16
MAX_NAME_WIDTH = 24


@dataclass(frozen=True)
class ShowInfo:
    """Show a dataset at a glance: sizes, tasks, cameras, and the range of every dimension.

    Example:
        oatkit data info out/demo/metaworld
    """

    path: Positional[str]
    """File, folder or hub id (org/name)."""
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write the result as JSON."""
    columns: Columns = DatasetOptions()


def run(options: ShowInfo, console: Console) -> int:
    info = summarize_dataset(options.columns.open(options.path, console))
    console.print(render_info(info))
    write_result(info, options.out, console)
    next_command = f"oatkit data check {shlex.quote(options.path)}{options.columns.flags()}"
    print_lines(console, f"next: {next_command}", style="dim")
    return 0


def render_info(info: DatasetInfo) -> Group:
    """Facts about the dataset, then the range of every dimension."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    low, q25, median, q75, high = info.length_quantiles
    rows = [
        ("path", info.path),
        ("format", info.format),
        ("episodes", f"{info.num_episodes:,}"),
        ("frames", f"{info.num_frames:,}{_duration(info)}"),
        ("length", f"{low} / {q25} / {median} / {q75} / {high}  (min, 25 %, median, 75 %, max)")
        if low < high
        else ("length", f"{low} frames each"),
        ("fps", f"{info.fps:g}" if info.fps else "unknown; give it with --fps"),
        ("cameras", _cameras(info)),
        ("tasks", _tasks(info)),
        ("other columns", ", ".join(info.other_columns) or "none"),
        ("actions", info.actions),
        ("fingerprint", info.fingerprint),
    ]
    for name, value in rows:
        facts.add_row(name, Text(value, overflow="fold"))
    facts.add_row("", "")
    tables = [_render_dimensions("action", info.action_keys, info.action)]
    if info.state:
        tables.append(_render_dimensions("state", info.state_keys, info.state))
    return Group(facts, *tables)


def _duration(info: DatasetInfo) -> str:
    if not info.fps:
        return ""
    seconds = info.num_frames / info.fps
    if seconds < 120:
        return f"  ({seconds:.1f} seconds)"
    return (
        f"  ({seconds / 60:.1f} minutes)" if seconds < 7200 else f"  ({seconds / 3600:.1f} hours)"
    )


def _cameras(info: DatasetInfo) -> str:
    if not info.cameras:
        return "none"
    return "\n".join(
        f"{c.name}  {c.height}x{c.width}{'' if c.is_available else '  (declared, files absent)'}"
        for c in info.cameras
    )


def _tasks(info: DatasetInfo) -> str:
    shown = info.tasks[:MAX_TASKS_SHOWN]
    width = max(len(str(task.num_episodes)) for task in shown)
    lines = [f"{task.num_episodes:>{width}} x {task.text}" for task in shown]
    if len(info.tasks) > MAX_TASKS_SHOWN:
        lines.append(f"and {len(info.tasks) - MAX_TASKS_SHOWN} more")
    return "\n".join(lines)


def _render_dimensions(
    word: str, keys: Sequence[str], dimensions: Sequence[DimensionSummary]
) -> Text:
    shown = dimensions[:MAX_DIMENSIONS_SHOWN]
    width = min(MAX_NAME_WIDTH, max(len(d.name) for d in shown))
    headings = "".join(f"{h:>10}" for h in ("min", "1 %", "mean", "99 %", "max"))
    text = Text(no_wrap=True, overflow="ignore")
    text.append(word, style="bold")
    text.append(f"  {' + '.join(keys)}\n{' ' * (4 + width)}{headings}  min .. max\n", style="dim")
    for index, d in enumerate(shown):
        numbers = "".join(f"{v:>10.3g}" for v in (d.min, d.q01, d.mean, d.q99, d.max))
        text.append(f"{index:>3} ", style="dim")
        text.append(
            f"{shortened_name(d.name, width):<{width}}{numbers}  {sparkline(d.histogram)}\n"
        )
    if len(dimensions) > len(shown):
        hidden = len(dimensions) - len(shown)
        text.append(f"    and {hidden} more; --out FILE.json has them all\n", style="dim")
    return text


def shortened_name(name: str, width: int) -> str:
    """A name of at most `width` characters; the end stays, which tells joints of a limb apart."""
    if len(name) <= width:
        return name
    num_first = (width - 1) // 3
    return f"{name[:num_first]}…{name[len(name) - (width - 1 - num_first) :]}"


def sparkline(counts: Sequence[int]) -> str:
    """Counts as tiny bars; anything above zero is visible."""
    top = max(counts)
    return "".join(BARS[-(-count * (len(BARS) - 1) // top)] for count in counts)
