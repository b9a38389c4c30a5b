"""The tables of numbers in the report of a comparison."""

from __future__ import annotations

from html import escape

import numpy as np

from oatkit.measure.baselines import BASELINES
from oatkit.measure.metric_table import METRICS, format_metric
from oatkit.measure.properties import CRITERIA
from oatkit.measure.reports.comparison_findings import cheapest_ways, share_left, trained
from oatkit.measure.reports.html_page import table
from oatkit.measure.reports.probe_findings import probe_baselines, probed_budgets
from oatkit.measure.reports.report_words import count_tokens
from oatkit.measure.reports.representation_findings import (
    HEADINGS,
    representation_rows,
    representation_sentences,
)
from oatkit.types import Allocation, BudgetMeasurement, Property, TokenizerComparison


def comparison_tables(comparison: TokenizerComparison) -> dict[str, str]:
    """Heading to HTML; a table without rows is empty."""
    return {
        "A policy on these tokens": _policies_table(comparison),
        "The cheapest way to an error": _cheapest_table(comparison),
        "Rate and distortion": _rate_distortion_table(comparison),
        "Representations of actions": _representations_table(comparison),
        "Properties": _properties_table(comparison),
        "Information allocation": _allocation_tables(comparison),
        "Errors per dimension": _dimensions_table(comparison),
        "Vocabulary": _vocabulary_table(comparison),
        "Training, speed and robustness": _training_table(comparison),
    }


def _policies_table(comparison: TokenizerComparison) -> str:
    rows = [
        [
            row.kind,
            f"{row.found.tokens:.3g}",
            "none" if row.found.mse is None else f"{row.mse:.2e}",
            "" if row.found.mse is None else f"{share_left(comparison, row.mse)} %",
            f"{row.found.tokenizer_mse:.2e}",
            "" if row.overlap is None else f"{row.overlap:.0%}",
        ]
        for row in probed_budgets(comparison)
    ]
    if not rows:
        return ""
    for b in probe_baselines(comparison):
        rows.append([BASELINES[b.name], "", f"{b.mse:.2e}", f"{share_left(comparison, b.mse)} %"])
        rows[-1] += ["", ""]
    note = (
        f"Chunks that a small policy generated from the state of held-out episodes after "
        f"{comparison.policy_steps:,} steps on the tokens of each kind. True tokens: what the "
        "tokenizer itself leaves; overlap: share of the true tokens that the chunk one step later "
        "has too, in the same place."
    )
    headings = ("on the tokens of", "tokens", "MSE", "left", "MSE of true tokens", "overlap")
    return table(note, headings, rows)


def _cheapest_table(comparison: TokenizerComparison) -> str:
    rows = [
        [
            f"{100 * way.share:g} %",
            f"{way.mse:.2e}",
            *map(_kind_and_budget, (way.by_tokens, way.by_bits)),
        ]
        for way in cheapest_ways(comparison)
    ]
    headings = ("left of the variance", "MSE", "fewest tokens", "fewest bits")
    return table("At trained budgets, on held-out chunks.", headings, rows)


def _kind_and_budget(found: tuple[str, BudgetMeasurement] | None) -> str:
    if found is None:
        return "none"
    kind, b = found
    return f"{kind}, {count_tokens(b.tokens)}, {b.bits:.0f} bits"


def _rate_distortion_table(comparison: TokenizerComparison) -> str:
    rows = [
        [
            k.measurement.kind,
            *(format_metric(name, b) for name in METRICS),
            f"{share_left(comparison, b.mse)} %",
            _ratio(b),
        ]
        for k in comparison.kinds
        for b in trained(k)
    ]
    headings = ("kind", *(metric.heading for metric in METRICS.values()), "left", "ratio")
    meanings = "; ".join(f"{metric.heading}: {metric.meaning}" for metric in METRICS.values())
    note = (
        f"At trained budgets, on held-out chunks. {meanings}; left: MSE over the variance; ratio: "
        "MSE over the Gaussian reference, below 1 is better than it."
    )
    return table(note, headings, rows)


def _ratio(b: BudgetMeasurement) -> str:
    ratio = b.mse / max(b.gaussian_mse, 1e-30)
    return f"{ratio:.2f}" if ratio < 1000 else "> 1000"


def _representations_table(comparison: TokenizerComparison) -> str:
    rows = [list(row) for row in representation_rows(comparison)]
    if not rows:
        return ""
    note = "On held-out chunks, all tokens. " + " ".join(representation_sentences(comparison))
    return table(note, HEADINGS, rows)


def _properties_table(comparison: TokenizerComparison) -> str:
    rows = []
    for kind in comparison.kinds:
        p = kind.properties
        cells = (_mark(found) for found in (p.compact, p.total, p.ordered, p.block_compatible))
        rows.append([escape(kind.measurement.kind), *cells])
    titles = ("compact", "total decodable", "ordered", "block compatible")
    meanings = "".join(
        f"<li><b>{title}</b>: {escape(criterion)}.</li>"
        for title, criterion in zip(titles, CRITERIA.values(), strict=True)
    )
    return (
        "<p>The paper's table of tokenizers as policy interfaces, decided by these "
        f"measurements:</p><ul>{meanings}</ul>"
        + table("", ("kind", *titles), rows, is_html=True, is_words=True)
        + '<p class="soft">FAST is fitted on this data here; the paper uses the universal FAST '
        "tokenizer.</p>"
    )


def _mark(found: Property) -> str:
    marks = {True: ("yes", "yes"), False: ("no", "no"), None: ("soft", "does not apply")}
    style, word = marks[found.holds]
    return f'<span class="{style}">{word}</span><small>{escape(found.evidence)}</small>'


def _allocation_tables(comparison: TokenizerComparison) -> str:
    found = {k.measurement.kind: k.allocation for k in comparison.kinds if k.allocation is not None}
    if not found:
        return ""
    return (
        "<p>How much each token tells, in normalized units. Training samples a budget K and keeps "
        "tokens 1 to K, so token i counts with the weight w<sub>i</sub> = Pr(K &ge; i): "
        "E<sub>K</sub>[&epsilon;(K)] = &epsilon;(0) &minus; &Sigma; w<sub>i</sub> "
        "&Delta;<sub>i</sub>.</p>"
        + table(
            "The paper's identity on held-out chunks. Left side: every chunk decoded at every K. "
            "Right side: gains and survival weights. They should agree to rounding.",
            ("kind", "ε(0)", "left side", "right side", "relative difference"),
            [_identity_row(kind, allocation) for kind, allocation in found.items()],
        )
        + table(
            "What each budget interval takes off.",
            ("kind", "tokens", "weight w", "gain", "share of ε(0)", "error left"),
            [row for kind, allocation in found.items() for row in _gain_rows(kind, allocation)],
        )
    )


def _identity_row(kind: str, a: Allocation) -> list[str]:
    difference = abs(a.expected_error - a.expanded_error) / max(a.expected_error, 1e-30)
    return [
        kind,
        f"{a.errors[0]:.4g}",
        f"{a.expected_error:.6g}",
        f"{a.expanded_error:.6g}",
        f"{difference:.1g}",
    ]


def _gain_rows(kind: str, a: Allocation) -> list[list[str]]:
    """A row for the tokens between one trained budget and the next."""
    rows = []
    for first, last in zip((0, *a.budgets), a.budgets, strict=False):
        gain = a.errors[first] - a.errors[last]
        rows.append(
            [
                kind,
                f"{first + 1} to {last}" if last > first + 1 else str(last),
                f"{a.survival[last - 1]:.2f}",
                f"{gain:.2e}",
                f"{gain / a.errors[0]:.1%}",
                f"{a.errors[last]:.2e}",
            ]
        )
    return rows


def _dimensions_table(comparison: TokenizerComparison) -> str:
    rows = []
    for dim, name in enumerate(comparison.dimensions):
        ends = [k.measurement.budgets[-1] for k in comparison.kinds]
        cells = [f"{b.mae[dim]:.2g}<small>{b.worst[dim]:.2g}</small>" for b in ends]
        rows.append([escape(name), f"{comparison.std[dim]:.2g}", *cells])
    headings = ("dimension", "std", *(k.measurement.kind for k in comparison.kinds))
    note = "Mean absolute error and, below it, the worst one; all tokens, raw units."
    return table(note, headings, rows, is_html=True)


def _vocabulary_table(comparison: TokenizerComparison) -> str:
    rows = []
    for m in (k.measurement for k in comparison.kinds):
        usage, perplexity = [s.usage for s in m.slots], [s.perplexity for s in m.slots]
        rows.append(
            [
                m.kind,
                f"{m.vocab_size:,}",
                f"{min(usage):.1%}",
                f"{np.median(usage):.1%}",
                f"{max(usage):.1%}",
                f"{np.median(perplexity):.0f}",
            ]
        )
    count = comparison.kinds[0].measurement.num_chunks
    note = f"Share of the vocabulary that occurs in a slot; {count:,} chunks can show no more ids."
    headings = ("kind", "vocabulary", "least", "median", "most", "median perplexity")
    return table(note, headings, rows)


def _training_table(comparison: TokenizerComparison) -> str:
    rows = []
    for kind in comparison.kinds:
        m, r = kind.measurement, kind.measurement.robustness
        steps = comparison.steps.get(m.kind)
        rows.append(
            [
                m.kind,
                f"{m.num_parameters:,}",
                f"{steps:,}" if steps else "fitted",
                f"{kind.seconds:,.1f} s",
                f"{m.encode_chunks_per_s:,.0f}",
                f"{m.decode_chunks_per_s:,.0f}",
                f"{r.random_undecodable:.1%}",
                f"{r.corrupted_undecodable:.1%}",
                "none" if r.corrupted_mse is None else f"{r.corrupted_mse:.2e}",
            ]
        )
    headings = (
        *("kind", "parameters", "steps", "time", "encoded chunks/s", "decoded chunks/s"),
        *("random ids undecodable", "one wrong token undecodable", "MSE of one wrong token"),
    )
    note = (
        "Undecodable: the share of sequences of random ids, and of true ones with one wrong token, "
        "that give no chunk."
    )
    return table(note, headings, rows)
