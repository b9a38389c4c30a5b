"""`report.html` of `oatkit tokenizer compare`, from its record."""

from __future__ import annotations

from html import escape
from pathlib import Path

from oatkit.measure.reports.chart_table import COMPARISON_CHARTS
from oatkit.measure.reports.comparison_findings import cautions, sentences
from oatkit.measure.reports.comparison_tables import comparison_tables
from oatkit.measure.reports.html_page import bullets, figures, how_made, lab, page, warning
from oatkit.types import TokenizerComparison

GAUSSIAN = (
    '<p class="soft">The Gaussian reference is what an ideal linear code of a Gaussian source with '
    "the covariance of these chunks would leave at the same bits (reverse water-filling). Real "
    "chunks are not Gaussian: a learned code can be below it.</p>"
)


def write_comparison_report(comparison: TokenizerComparison, folder: Path) -> list[Path]:
    """Write `report.html` and a PNG of each chart; gives their paths, the page first."""
    charts = {title: plot(comparison) for title, plot in COMPARISON_CHARTS.items()}
    html = folder / "report.html"
    sections = {title: figures(own) for title, own in charts.items()}
    html.write_text(comparison_page(comparison, {**sections, "Prefix lab": lab(folder)}))
    written = [html]
    for chart in (chart for own in charts.values() for chart in own):
        written.append(folder / f"{chart.name}.png")
        written[-1].write_bytes(chart.png)
    return written


def comparison_page(comparison: TokenizerComparison, sections: dict[str, str]) -> str:
    """The page; `sections` are the titles of its figures to their HTML."""
    first = comparison.kinds[0].measurement
    lead = (
        f"{len(comparison.kinds)} kinds on <code>{escape(comparison.data)}</code>: chunks of "
        f"{first.horizon} x {first.action_dim} actions, {first.num_chunks:,} of them from "
        f"{comparison.num_episodes} held-out episodes."
    )
    return page(
        "Action tokenizers compared",
        lead,
        summary=bullets(sentences(comparison)) + warning(cautions(comparison)) + GAUSSIAN,
        figures=sections,
        tables=comparison_tables(comparison),
        made=how_made([comparison.command], comparison.settings, comparison.versions),
    )
