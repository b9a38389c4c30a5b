"""`oatkit data check`: what in a dataset ruins training."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.record_output import write_result
from oatkit.commands.text_output import print_lines
from oatkit.data.check import check_dataset
from oatkit.types import CheckKind, DatasetCheck, Finding

MAX_FINDINGS_SHOWN = 8


@dataclass(frozen=True)
class CheckDataset:
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


def run(options: CheckDataset, console: Console) -> int:
    dataset = options.columns.open(options.path, console, allow_nonfinite=True)
    found = check_dataset(dataset, horizon=options.horizon)
    shown = [f for f in found.findings if f.kind not in options.ignore]
    console.print(render_check(found, shown))
    write_result(found, options.out, console)
    if shown:
        return 1
    data = shlex.quote(options.path)
    next_command = (
        f"oatkit tokenizer train --data {data} --out out/tokenizer{options.columns.flags()}"
    )
    print_lines(console, f"next: {next_command}", style="dim")
    return 0


def render_check(found: DatasetCheck, shown: Sequence[Finding]) -> Group:
    """Findings by their kind, then how many there are."""
    heading = Text(f"{found.path}  ({found.format}, chunks of {found.horizon})", overflow="fold")
    by_kind: dict[CheckKind, list[Finding]] = {}
    for finding in shown:
        by_kind.setdefault(finding.kind, []).append(finding)
    panels = [_render_findings(kind, findings) for kind, findings in by_kind.items()]
    ignored = len(found.findings) - len(shown)
    verdict = {0: "nothing wrong found", 1: "1 finding"}.get(len(shown), f"{len(shown)} findings")
    if len(by_kind) < len(shown):
        verdict += f" of {len(by_kind)} kind{'s' if len(by_kind) > 1 else ''}"
    if ignored:
        verdict += f", {ignored} ignored"
    return Group(heading, *panels, Text(verdict, style="bold" if shown else "bold green"))


def _render_findings(kind: CheckKind, findings: Sequence[Finding]) -> Panel:
    bullet = "• " if len(findings) > 1 else ""
    lines = [bullet + f.message for f in findings[:MAX_FINDINGS_SHOWN]]
    if len(findings) > MAX_FINDINGS_SHOWN:
        lines.append(f"and {len(findings) - MAX_FINDINGS_SHOWN} more; --out has them all")
    text = Text("\n".join(lines), overflow="fold")
    text.append(f"\n→ {findings[0].remedy}", style="dim")
    return Panel(text, title=kind, title_align="left", border_style="yellow")
