"""`report.html` of `oatkit tokenizer compare`, from its record."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from oatkit.measure.properties import CRITERIA
from oatkit.measure.reports import charts
from oatkit.measure.reports.charts import Chart
from oatkit.measure.reports.html_page import bullets, figure, how_made, lab, page, table, warning
from oatkit.measure.reports.verdict import (
    LATE_FALL,
    cautions,
    cheapest,
    count_tokens,
    late_fall,
    reaches,
    sentences,
    share_left,
    trained,
)
from oatkit.types import (
    Allocation,
    BudgetMeasurement,
    KindComparison,
    Property,
    TokenizerComparison,
)


def write_report(comparison: TokenizerComparison, folder: Path) -> list[Path]:
    """Write `report.html` and a PNG of each chart; gives their paths, the page first."""
    drawn = draw_charts(comparison)
    html = folder / "report.html"
    html.write_text(render(comparison, drawn, lab(folder)))
    pictures = [folder / f"{name}.png" for name in drawn]
    for path, chart in zip(pictures, drawn.values(), strict=True):
        path.write_bytes(chart.png)
    return [html, *pictures]


def draw_charts(comparison: TokenizerComparison) -> dict[str, Chart]:
    """All charts that the comparison's kinds allow, by file name."""
    with_prefixes = [k for k in comparison.kinds if k.allocation is not None]
    learned = [k for k in comparison.kinds if k.losses]
    drawn = {"rate_distortion": charts.rate_distortion(comparison)}
    for kind in with_prefixes:
        drawn[f"prefixes-{kind.measurement.kind}"] = charts.prefixes(comparison, kind)
    if with_prefixes:
        drawn["allocation"] = charts.allocation(with_prefixes)
    drawn["dimensions"] = charts.dimensions(comparison)
    drawn["vocabulary"] = charts.vocabulary(comparison)
    if learned:
        drawn["training"] = charts.training(learned)
    return drawn


def render(comparison: TokenizerComparison, drawn: dict[str, Chart], played: str) -> str:
    """The page; `played` is the HTML of its prefix lab."""
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
        figures={
            "Error against tokens and bits": rate_distortion(comparison, drawn["rate_distortion"]),
            "A chunk token by token": _prefixes(comparison, drawn),
            "Prefix lab": played,
            "What each token tells": _allocation(comparison, drawn),
            "Errors per dimension": _dimensions(comparison, drawn),
            "Vocabulary": _vocabulary(comparison, drawn),
            "Training": _training(comparison, drawn),
        },
        tables={
            "The cheapest way to an error": _cheapest_table(comparison),
            "Rate and distortion": _rate_distortion_table(comparison),
            "Properties": _properties(comparison),
            "Information allocation": _allocation_tables(comparison),
            "Errors per dimension": _dimensions_table(comparison),
            "Vocabulary": _vocabulary_table(comparison),
            "Training, speed and robustness": _training_table(comparison),
        },
        made=how_made([comparison.command], comparison.settings, comparison.versions),
    )


GAUSSIAN = (
    '<p class="soft">The Gaussian reference is what an ideal linear code of a Gaussian source with '
    "the covariance of these chunks would leave at the same bits (reverse water-filling). Real "
    "chunks are no Gaussian: a learned code can be below it.</p>"
)


# Figures


def rate_distortion(comparison: TokenizerComparison, chart: Chart) -> str:
    caption = (
        "Lower and further left is better. A curve is one tokenizer cut off after more and more "
        "tokens, marks are its trained budgets; a single mark is a kind that decodes only whole. "
        "Dashed: the Gaussian reference at the same bits; it leaves the chart where it is below "
        "every measured error."
    )
    return figure(chart, cheapest(comparison), caption)


def _prefixes(comparison: TokenizerComparison, drawn: dict[str, Chart]) -> str:
    kinds = [k for k in comparison.kinds if k.allocation is not None]
    if not kinds:
        return "<p>No kind that was compared decodes prefixes.</p>"
    return "".join(
        prefixes(comparison, kind, drawn[f"prefixes-{kind.measurement.kind}"]) for kind in kinds
    )


def prefixes(comparison: TokenizerComparison, kind: KindComparison, chart: Chart) -> str:
    """The reconstructions of one kind."""
    rows = trained(kind)
    first, last = rows[0], rows[-1]
    see = (
        f"{kind.measurement.kind} leaves {share_left(comparison, first.mse)} % of the variance "
        f"with {count_tokens(first.tokens)} and {share_left(comparison, last.mse)} % with "
        f"{last.tokens:.3g}."
    )
    caption = (
        "A row is a held-out chunk, a column a budget. Colored: decoded; thin: the truth. From "
        "left to right the color should settle on the truth. Each dimension is in its own "
        f"standard deviations, at most {charts.MAX_DIMENSIONS} that move most are drawn."
    )
    return figure(chart, see, caption)


def _allocation(comparison: TokenizerComparison, drawn: dict[str, Chart]) -> str:
    shares = [
        f"{k.measurement.kind} {k.allocation.gains[0] / _taken(k.allocation):.0%}"
        for k in comparison.kinds
        if k.allocation is not None and _taken(k.allocation) > 0
    ]
    if not shares:
        return ""
    caption = (
        "Top: what each token takes off the error when it joins those before it, on a log axis; "
        "hatched where the error rises instead, which an ordered kind may do only between trained "
        "budgets. Bottom: how often training keeps the token. Tokens of one budget interval share "
        "a weight."
    )
    see = f"The first token takes off, of what all take off: {', '.join(shares)}."
    return figure(drawn["allocation"], see, caption)


def _taken(allocation: Allocation) -> float:
    """What all tokens together take off the error."""
    return allocation.errors[0] - allocation.errors[-1]


def _dimensions(comparison: TokenizerComparison, drawn: dict[str, Chart]) -> str:
    mae_KA = np.array([k.measurement.budgets[-1].mae for k in comparison.kinds])
    relative_KA = np.maximum(mae_KA, 1e-12) / np.maximum(comparison.std, 1e-12)
    worst = comparison.dimensions[int(np.log(relative_KA).mean(axis=0).argmax())]
    caption = "With all tokens. A dimension far to the right of the others is the one that suffers."
    see = f"Over all kinds, {worst} has the largest error for how much it moves."
    return figure(drawn["dimensions"], see, caption)


def _vocabulary(comparison: TokenizerComparison, drawn: dict[str, Chart]) -> str:
    used = {
        k.measurement.kind: np.median([s.perplexity for s in k.measurement.slots])
        / k.measurement.vocab_size
        for k in comparison.kinds
    }
    most, least = max(used, key=lambda k: used[k]), min(used, key=lambda k: used[k])
    see = (
        f"{most} uses its vocabulary most evenly, {least} least: the ids of a slot are worth "
        f"{used[most]:.0%} and {used[least]:.0%} of what there is."
    )
    caption = (
        "Perplexity: how many equally likely ids would carry as much as the ids of a slot do. A "
        "slot near 1 says almost nothing."
    )
    return figure(drawn["vocabulary"], see, caption)


def _training(comparison: TokenizerComparison, drawn: dict[str, Chart]) -> str:
    if "training" not in drawn:
        return ""
    falling = [k.measurement.kind for k in comparison.kinds if late_fall(k) > LATE_FALL]
    see = (
        f"Still falling at the end, so more steps would help: {', '.join(falling)}."
        if falling
        else "No loss falls much at the end."
    )
    caption = (
        "Training loss, each kind's own (that of the ordered kinds is over all budgets), on a log "
        "axis."
    )
    return figure(drawn["training"], see, caption)


# Tables


def _cheapest_table(comparison: TokenizerComparison) -> str:
    rows = [
        [
            f"{100 * reach.share:g} %",
            f"{reach.mse:.2e}",
            *map(_place, (reach.by_tokens, reach.by_bits)),
        ]
        for reach in reaches(comparison)
    ]
    headings = ("left of the variance", "MSE", "fewest tokens", "fewest bits")
    return table("At trained budgets, on held-out chunks.", headings, rows)


def _place(found: tuple[str, BudgetMeasurement] | None) -> str:
    if found is None:
        return "none"
    kind, b = found
    return f"{kind}, {count_tokens(b.tokens)}, {b.bits:.0f} bits"


def _rate_distortion_table(comparison: TokenizerComparison) -> str:
    rows = [
        [
            k.measurement.kind,
            f"{b.tokens:.3g}",
            f"{b.bits:.0f}",
            f"{b.entropy_bits:.0f}",
            f"{share_left(comparison, b.mse)} %",
            f"{b.mse:.2e}",
            f"{b.mse_without_padding:.2e}",
            f"{b.mse_normalized:.2e}",
            f"{b.gaussian_mse:.2e}",
            _ratio(b),
            f"{b.jerk_ratio:.2f}",
        ]
        for k in comparison.kinds
        for b in trained(k)
    ]
    headings = (
        *("kind", "tokens", "bits", "entropy", "left", "MSE", "without padding", "normalized"),
        *("Gaussian", "ratio", "jerk"),
    )
    note = (
        "At trained budgets, on held-out chunks. Entropy: bits of the ids that occur, by slot. "
        "Left: MSE over the variance. Ratio: MSE over the Gaussian reference, below 1 is better "
        "than it. Jerk: squared third difference over the true one, 1 is as smooth."
    )
    return table(note, headings, rows)


def _ratio(b: BudgetMeasurement) -> str:
    ratio = b.mse / max(b.gaussian_mse, 1e-30)
    return f"{ratio:.2f}" if ratio < 1000 else "> 1000"


def _properties(comparison: TokenizerComparison) -> str:
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
    kinds = [k for k in comparison.kinds if k.allocation is not None]
    if not kinds:
        return ""
    sides, spread = [], []
    for kind in kinds:
        a = kind.allocation
        assert a is not None
        difference = abs(a.expected_error - a.expanded_error) / max(a.expected_error, 1e-30)
        sides.append(
            [
                kind.measurement.kind,
                f"{a.errors[0]:.4g}",
                f"{a.expected_error:.6g}",
                f"{a.expanded_error:.6g}",
                f"{difference:.1g}",
            ]
        )
        for first, last in zip((0, *a.budgets), a.budgets, strict=False):
            taken = a.errors[first] - a.errors[last]
            spread.append(
                [
                    kind.measurement.kind,
                    f"{first + 1} to {last}" if last > first + 1 else str(last),
                    f"{a.survival[last - 1]:.2f}",
                    f"{taken:.2e}",
                    f"{taken / a.errors[0]:.1%}",
                    f"{a.errors[last]:.2e}",
                ]
            )
    return (
        "<p>How much each token tells, in normalized units. Training draws a budget K and keeps "
        "tokens 1 to K, so token i counts with the weight w<sub>i</sub> = Pr(K &ge; i): "
        "E<sub>K</sub>[&epsilon;(K)] = &epsilon;(0) &minus; &Sigma; w<sub>i</sub> "
        "&Delta;<sub>i</sub>.</p>"
        + table(
            "The paper's identity on held-out chunks. Left side: every chunk decoded at every K. "
            "Right side: gains and survival weights. They should agree to rounding.",
            ("kind", "ε(0)", "left side", "right side", "relative difference"),
            sides,
        )
        + table(
            "What each budget interval takes off.",
            ("kind", "tokens", "weight w", "gain", "share of ε(0)", "error left"),
            spread,
        )
    )


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
