"""The look that all reports share: one page of HTML that needs no other file.

A page says in words what was found, shows it in figures, gives the numbers in tables, and ends with
how it was made.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from oatkit.measure.reports.chart import Chart

STYLE = """
:root { color-scheme: light dark; --sans: system-ui, Roboto, Helvetica, Arial, sans-serif;
  --ink: #22252b; --soft: #5f6670; --paper: #fff; --card: #f5f7f9; --grid: #d9dce2;
  --accent: #1b6fae; --good: #1d7a4c; --bad: #b3412d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #a0a8b3; --paper: #15171b;
  --card: #1e2126; --grid: #363b43; --accent: #6ab6ef; --good: #54c48d; --bad: #f0907c; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 var(--sans); }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .4rem; text-wrap: balance; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 2.6rem 0 .8rem; }
h3 { font-size: 1rem; margin: 2rem 0 .2rem; }
p, li { max-width: 46rem; }
ul { padding-left: 1.2rem; }
li { margin: .3rem 0; }
.soft, .note, figcaption { color: var(--soft); }
figcaption b { color: var(--ink); font-weight: 600; }
#in-short > ul > li:first-child { font-size: 1.15rem; line-height: 1.45; list-style: none;
  margin: 0 0 .8rem -1.2rem; font-weight: 600; text-wrap: pretty; }
.warning { border-left: 3px solid var(--bad); background: var(--card); padding: .6rem 1rem;
  margin: 1.4rem 0; border-radius: 0 6px 6px 0; font-size: .95rem; }
.warning p { margin: 0; font-weight: 600; }
.warning ul { margin: .3rem 0 0; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 1.2rem 0 0; padding: .7rem 0;
  border: solid var(--grid); border-width: 1px 0; font-size: .9rem; }
a { color: var(--accent); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
figure { margin: 1rem 0 2.2rem; }
.chart { overflow-x: auto; }
.chart svg { display: block; width: 100%; min-width: 40rem; height: auto; }
figcaption { font-size: .9rem; max-width: 46rem; margin-top: .5rem; }
.scroll { overflow-x: auto; margin: .4rem 0 1rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
.note { font-size: .9rem; margin: .2rem 0 .4rem; }
th, td { padding: .32rem .75rem; text-align: right; border-bottom: 1px solid var(--grid);
  vertical-align: top; white-space: nowrap; }
th { font-weight: 600; white-space: normal; vertical-align: bottom; }
tbody tr:hover { background: var(--card); }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
.words td { white-space: normal; min-width: 6rem; overflow-wrap: anywhere; }
.words td:first-child { overflow-wrap: normal; }
td small { display: block; color: var(--soft); line-height: 1.35; }
.films { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .8rem; }
.films figure { margin: 0; }
video { display: block; width: 100%; border-radius: 6px; background: var(--card); }
iframe { display: block; width: 100%; height: 64rem; border: 1px solid var(--grid);
  border-radius: 8px; }
pre { background: var(--card); border-radius: 6px; padding: .7rem 1rem; overflow-x: auto; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
.yes { color: var(--good); font-weight: 600; }
.no { color: var(--bad); font-weight: 600; }
code { font-size: .9em; background: var(--card); border-radius: 3px; padding: .1em .3em;
  overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { padding: 1.2rem 1rem 3rem; } h1 { font-size: 1.5rem; }
  th, td { padding: .32rem .5rem; } }
@media print { :root { font-size: 11px; --ink: #000; --soft: #444; --paper: #fff;
  --card: #f3f3f3; --grid: #ccc; --good: #1d8050; --bad: #c23030; }
  body { max-width: none; padding: 0; font-size: 1rem; } nav, iframe { display: none; }
  .chart svg { min-width: 0; } th, td { padding: .2rem .4rem; }
  figure, tr, .warning { break-inside: avoid; } h2, h3 { break-after: avoid; } }
"""
FIT = """addEventListener("message", ({data, source}) => {
  for (const frame of document.querySelectorAll("iframe"))
    if (frame.contentWindow === source && data.oatkitLabHeight)
      frame.style.height = `${data.oatkitLabHeight + 2}px`;
});"""
"""Script that gives a frame the height that the page inside it reports."""


def page(
    title: str,
    lead: str,
    *,
    summary: str,
    figures: Mapping[str, str],
    tables: Mapping[str, str],
    made: str,
    after: Mapping[str, str] | None = None,
) -> str:
    """The page as HTML; sections that are empty are left out.

    Args:
        title: Plain text of the title.
        lead: HTML of the line below the title.
        summary: HTML of what was found, in words.
        figures: Plain titles of sections to the HTML of their figures.
        tables: Plain titles of tables to their HTML.
        made: HTML of what it takes to make the results again.
        after: Plain titles of the last sections to their HTML.
    """
    numbers = "".join(f"<h3>{escape(name)}</h3>{html}" for name, html in tables.items() if html)
    sections = {
        "In short": summary,
        **figures,
        "In numbers": numbers,
        "How this was made": made,
        **(after or {}),
    }
    shown = {name: html for name, html in sections.items() if html}
    anchors = {name: name.lower().replace(" ", "-") for name in shown}
    links = "".join(f'<a href="#{anchors[name]}">{escape(name)}</a>' for name in shown)
    body = "".join(
        f'<section id="{anchors[name]}"><h2>{escape(name)}</h2>{html}</section>'
        for name, html in shown.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<header><h1>{escape(title)}</h1><p class="soft">{lead}</p></header>'
        f'<nav aria-label="On this page">{links}</nav><main>{body}</main></body></html>\n'
    )


def figures(charts: Iterable[Chart]) -> str:
    """Charts one below another, each with its words."""
    return "".join(_figure(chart) for chart in charts)


def _figure(chart: Chart) -> str:
    see = escape(chart.see)
    named = chart.svg.replace('role="img"', f'role="img" aria-label="{see}"', 1)
    return (
        f'<figure><div class="chart" tabindex="0">{named}</div>'
        f"<figcaption><b>{see}</b> {escape(chart.caption)}</figcaption></figure>"
    )


def video(path: Path, caption: str) -> str:
    """A figure with an mp4 that is stored in the page; `caption` is HTML."""
    data = b64encode(path.read_bytes()).decode()
    return (
        "<figure><video controls autoplay loop muted playsinline "
        f'src="data:video/mp4;base64,{data}"></video><figcaption>{caption}</figcaption></figure>'
    )


def lab(folder: Path) -> str:
    """The exported prefix lab of a comparison's folder, in a frame as tall as it says it is."""
    path = folder / "lab" / "index.html"
    if not path.exists():
        return ""
    return (
        "<p>Drag along the time line, move the budget and watch each tokenizer sharpen. "
        "<code>oatkit lab</code> opens every chunk, and edits tokens.</p>"
        f'<iframe title="Prefix lab" loading="lazy" srcdoc="{escape(path.read_text())}"></iframe>'
        f"<script>{FIT}</script>"
    )


def bullets(texts: Iterable[str]) -> str:
    """A list of plain texts."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def warning(texts: Sequence[str]) -> str:
    """A box of what to know before believing the rest; empty without texts."""
    if not texts:
        return ""
    return f'<div class="warning"><p>Before you believe it:</p>{bullets(texts)}</div>'


def commands(lines: Sequence[str]) -> str:
    """A block of commands, one a line."""
    return f'<pre tabindex="0"><code>{escape(chr(10).join(lines))}</code></pre>'


def how_made(lines: Sequence[str], *facts: Mapping[str, Any]) -> str:
    """The commands that repeat the work, and a table of settings, seeds and versions."""
    typed = [line for line in lines if line]
    rows = [[name, _format_value(value)] for part in facts for name, value in part.items()]
    return (commands(typed) if typed else "") + table(
        "What decides the result; the same command resumes it.",
        ("setting", "value"),
        rows,
        is_words=True,
    )


def _format_value(value: Any) -> str:
    """A value in words: `yes` for True, names and values of a mapping without braces."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(v)}" for name, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_value, value))
    words = {None: "none", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def table(
    caption: str,
    headings: Iterable[str],
    rows: Sequence[Sequence[str]],
    *,
    is_html: bool = False,
    is_words: bool = False,
) -> str:
    """A table.

    Args:
        caption: Plain text of the line above it.
        headings: Plain texts at the head of the columns.
        rows: Texts of the cells, row by row.
        is_html: Whether the cells are HTML instead of plain text.
        is_words: Whether the cells are sentences, which are aligned left and wrapped.
    """
    shown = str if is_html else escape
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{shown(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    note = f'<p class="note">{escape(caption)}</p>' if caption else ""
    style = ' class="words"' if is_words else ""
    return (
        f'{note}<div class="scroll" tabindex="0"><table{style}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
