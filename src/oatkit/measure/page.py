"""The look that all reports share: one page of HTML that needs nothing else.

A page is a title, a lead, and sections by their titles; figures, tables and videos go into those.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from oatkit.measure.charts import Chart

STYLE = """
:root { color-scheme: light dark; --sans: system-ui, Roboto, Helvetica, Arial, sans-serif;
  --ink: #22252b; --soft: #626973; --paper: #fff; --card: #f6f7f9; --grid: #d9dce2;
  --accent: #2f7fd6; --good: #1d8050; --bad: #c23030; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa2ad; --paper: #15171b;
  --card: #1e2126; --grid: #363b43; --accent: #6aabf0; --good: #54c48d; --bad: #f08080; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 var(--sans); }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .6rem; padding-top: .7rem;
  border-top: 1px solid var(--grid); }
p, li { max-width: 48rem; }
li { margin: .2rem 0; }
.soft, figcaption { color: var(--soft); }
.warning { background: var(--card); border-left: 3px solid var(--bad); border-radius: 4px;
  padding: .3rem 1rem; margin: 1rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 1rem 0; font-size: .9rem; }
a { color: var(--accent); text-decoration: none; }
figure { margin: 1rem 0 1.6rem; }
.chart { overflow-x: auto; }
.chart svg { display: block; width: 100%; min-width: 34rem; height: auto; }
figcaption { font-size: .9rem; max-width: 48rem; margin-top: .4rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--grid);
  vertical-align: top; white-space: nowrap; }
th { font-weight: 600; white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
.words td { white-space: normal; min-width: 6rem; overflow-wrap: anywhere; }
.words td:first-child { overflow-wrap: normal; }
td small { display: block; color: var(--soft); line-height: 1.35; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
.films { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .8rem; }
.films figure { margin: 0; }
video { display: block; width: 100%; border-radius: 6px; background: var(--card); }
pre { background: var(--card); border-radius: 6px; padding: .7rem 1rem; overflow-x: auto; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
.yes { color: var(--good); font-weight: 600; }
.no { color: var(--bad); font-weight: 600; }
code { font-size: .9em; background: var(--card); border-radius: 3px; padding: .1em .3em;
  overflow-wrap: anywhere; }
@media print { :root { font-size: 11px; --ink: #000; --soft: #444; --paper: #fff;
  --card: #f3f3f3; --grid: #ccc; --good: #1d8050; --bad: #c23030; }
  body { max-width: none; padding: 0; font-size: 1rem; } nav { display: none; }
  th, td { padding: .2rem .4rem; }
  figure, tr, .warning { break-inside: avoid; } h2 { break-after: avoid; } }
"""


def page(title: str, lead: str, sections: Mapping[str, str]) -> str:
    """The whole page.

    Args:
        title: Plain text.
        lead: HTML of the line below it.
        sections: Their titles, plain text, to their HTML; empty ones are left out.
    """
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
        f'<h1>{escape(title)}</h1><p class="soft">{lead}</p>'
        f"<nav>{links}</nav>{body}</body></html>\n"
    )


def figure(chart: Chart, caption: str) -> str:
    return (
        f'<figure><div class="chart">{chart.svg}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def video(path: Path, caption: str) -> str:
    """An mp4, stored in the page; `caption` is HTML."""
    data = b64encode(path.read_bytes()).decode()
    return (
        "<figure><video controls autoplay loop muted playsinline "
        f'src="data:video/mp4;base64,{data}"></video><figcaption>{caption}</figcaption></figure>'
    )


def bullets(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def warning(texts: Sequence[str]) -> str:
    """What to know before believing the rest; nothing where there is nothing."""
    if not texts:
        return ""
    return f'<div class="warning"><p>Before you believe it:</p>{bullets(texts)}</div>'


def commands(lines: Sequence[str]) -> str:
    """What to type, a line each."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def table(
    caption: str,
    headings: Iterable[str],
    rows: Sequence[Sequence[str]],
    *,
    is_html: bool = False,
    is_words: bool = False,
) -> str:
    """A table of numbers or of words; `is_html` says that its cells are escaped already."""
    shown = str if is_html else escape
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{shown(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    style = ' class="words"' if is_words else ""
    return (
        f'<div class="scroll"><table{style}>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
