"""`oatkit data info` and `oatkit data check`: open, look, print, and keep the record."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.data.check import check_dataset
from oatkit.data.info import summarize_dataset
from oatkit.types import CheckKind, DatasetCheck, DatasetInfo, DimensionSummary, Finding

BARS = " ▁▂▃▄▅▆▇█"
MAX_TASKS_SHOWN = 10
MAX_DIMENSIONS_SHOWN = 16
MAX_NAME_WIDTH = 16
MAX_FINDINGS_SHOWN = 8


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


@dataclass(frozen=True)
class RunCheck:
    """Find what ruins training; exits with 1 when there is something.

    Example:
        oatkit data check my_dataset --horizon 32 --ignore constant
    """

    path: Positional[str]
    """File, folder or hub id (org/name)."""
    horizon: int = 32
    """The chunk length that will be trained with."""
    ignore: tuple[CheckKind, ...] = ()
    """Kinds of findings that are known and fine."""
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write the result as JSON."""
    columns: Columns = DatasetOptions()


def show_info(options: ShowInfo, console: Console) -> int:
    info = summarize_dataset(options.columns.open(options.path))
    console.print(_draw_info(info))
    _write(info, options.out, console)
    _say(console, f"next: oatkit data check {shlex.quote(options.path)}")
    return 0


def run_check(options: RunCheck, console: Console) -> int:
    dataset = options.columns.open(options.path, allow_nonfinite=True)
    found = check_dataset(dataset, horizon=options.horizon)
    shown = [f for f in found.findings if f.kind not in options.ignore]
    console.print(_draw_check(found, shown))
    _write(found, options.out, console)
    if not shown:
        data = shlex.quote(options.path)
        _say(console, f"next: oatkit tokenizer train --data {data} --out out/tokenizer")
    return 1 if shown else 0


def _write(record: DatasetInfo | DatasetCheck, out: Path | None, console: Console) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(asdict(record), indent=2, ensure_ascii=False) + "\n")
        _say(console, f"wrote {out}")


def _say(console: Console, text: str) -> None:
    console.print(text, style="dim", soft_wrap=True, markup=False)


def _draw_info(info: DatasetInfo) -> Group:
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
        ("fingerprint", info.fingerprint),
    ]
    for name, value in rows:
        facts.add_row(name, Text(value, overflow="fold"))
    facts.add_row("", "")
    tables = [_draw_dimensions("action", info.action_keys, info.action)]
    if info.state:
        tables.append(_draw_dimensions("state", info.state_keys, info.state))
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


def _draw_dimensions(
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
        text.append(f"{d.name[:width]:<{width}}{numbers}  {sparkline(d.histogram)}\n")
    if len(dimensions) > len(shown):
        hidden = len(dimensions) - len(shown)
        text.append(f"    and {hidden} more; --out FILE.json has them all\n", style="dim")
    return text


def sparkline(counts: Sequence[int]) -> str:
    """Counts as tiny bars; anything above zero is visible."""
    top = max(counts)
    return "".join(BARS[-(-count * (len(BARS) - 1) // top)] for count in counts)


def _draw_check(found: DatasetCheck, shown: Sequence[Finding]) -> Group:
    heading = Text(f"{found.path}  ({found.format}, chunks of {found.horizon})", overflow="fold")
    by_kind: dict[CheckKind, list[Finding]] = {}
    for finding in shown:
        by_kind.setdefault(finding.kind, []).append(finding)
    panels = [_draw_findings(kind, findings) for kind, findings in by_kind.items()]
    ignored = len(found.findings) - len(shown)
    verdict = {0: "nothing wrong found", 1: "1 finding"}.get(len(shown), f"{len(shown)} findings")
    if len(by_kind) < len(shown):
        verdict += f" of {len(by_kind)} kind{'s' if len(by_kind) > 1 else ''}"
    if ignored:
        verdict += f", {ignored} ignored"
    return Group(heading, *panels, Text(verdict, style="bold" if shown else "bold green"))


def _draw_findings(kind: CheckKind, findings: Sequence[Finding]) -> Panel:
    bullet = "• " if len(findings) > 1 else ""
    lines = [bullet + f.message for f in findings[:MAX_FINDINGS_SHOWN]]
    if len(findings) > MAX_FINDINGS_SHOWN:
        lines.append(f"and {len(findings) - MAX_FINDINGS_SHOWN} more; --out has them all")
    text = Text("\n".join(lines), overflow="fold")
    text.append(f"\n→ {findings[0].remedy}", style="dim")
    return Panel(text, title=kind, title_align="left", border_style="yellow")
