"""The section of the results page on what predictions say of their own error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.control import ROWS
from benchmarks.markdown import paragraph, section, table


def execution_signals(record: dict[str, Any]) -> str:
    settings, results = record["settings"], record["results"]
    order = list(ROWS)
    rows = sorted(results.values(), key=lambda row: (order.index(row["row"]), row["seed"]))
    steps = list(rows[0]["by_steps"])
    draws = settings["draws"]
    return section(
        "What a prediction says of its own error",
        paragraph(
            '`execute="auto"` decides by the entropy of a chunk\'s tokens how much of it to '
            "execute. Here are three signals beside the error of the chunk, for every observation "
            f"of the {rows[0]['episodes']} episodes that the policies of the sections above held "
            "out: the mean entropy of the tokens; agreement, how far the first "
            f"{settings['signal_steps']} actions are from what the chunk predicted "
            f"{settings['gap']} steps earlier had planned for the same moments; consensus, how "
            f"far {draws} draws at temperature {settings['temperature_of_draws']:g} are from their "
            "mean over the same steps. Chunks are those of the likeliest tokens, as the policy "
            "acts; distances and errors are root mean squares over steps and dimensions, "
            "normalized units. The demonstrations go on as the expert does and not as the chunk "
            "before had planned, so that agreement here has in it what that chunk did wrong."
        ),
        paragraph(
            "Spearman's rank correlation with the error of the first "
            f"{', '.join(steps[:-1])} and {steps[-1]} steps, with 95 % intervals from episodes "
            "drawn with replacement."
        ),
        table(
            ("policy", "seed", "signal", *steps),
            [
                (*_policy(row), name, *(_interval(b["correlation"][name]) for b in _by_steps(row)))
                for row in rows
                for name in row["signals"]
            ],
        ),
        paragraph(
            "Share of the variance of the error's logarithm that a linear regression on the "
            "logarithms of the signals explains, every episode expected from the others (below 0: "
            "less than their mean does), and how much more that is than of the first signal alone, "
            "with the interval."
        ),
        table(
            ("policy", "seed", "signals", *steps),
            [
                (
                    *_policy(row),
                    " + ".join(names["signals"]),
                    *(_share(b["explained"][place], place) for b in _by_steps(row)),
                )
                for row in rows
                for place, names in enumerate(_by_steps(row)[0]["explained"])
            ],
        ),
        paragraph(
            "What that is worth to `auto`: its table made of the error that the signals expect "
            "instead of the entropy, every episode by a table of the others. Steps that it "
            "executes of a chunk on average; the percentage of the error of executed steps that is "
            "saved against the same numbers of steps for any chunks; how much more that is than by "
            "the first signal."
        ),
        table(
            ("policy", "seed", "signals", "steps", "saved", "more than by the first"),
            [
                (
                    *_policy(row),
                    " + ".join(found["signals"]),
                    f"{found['steps']:.2f}",
                    _percent(found["value"]),
                    _percent(found["beyond_first"]) if place else "",
                )
                for row in rows
                for place, found in enumerate(row["executed"])
            ],
        ),
        paragraph(
            "The error itself and what signals cost: entropy and agreement are there with every "
            f"query; {draws} draws in one batch take so many times as long as one, for one "
            "observation, in turns beside other work."
        ),
        table(
            ("policy", "seed", "observations", *steps, f"{draws} draws"),
            [
                (
                    *_policy(row),
                    f"{row['observations']:,}",
                    *(f"{b['error']:.3f}" for b in _by_steps(row)),
                    f"{row['ms'][str(draws)] / row['ms']['1']:.1f} times",
                )
                for row in rows
            ],
        ),
        script="execution_signals",
    )


def _policy(row: Mapping[str, Any]) -> tuple[str, str]:
    return f"`{row['row']}`", str(row["seed"])


def _by_steps(row: Mapping[str, Any]) -> list[Any]:
    return list(row["by_steps"].values())


def _interval(estimate: Mapping[str, float], sign: str = "") -> str:
    ends = " to ".join(f"{estimate[end]:{sign}.2f}" for end in ("low", "high"))
    return f"{estimate['value']:{sign}.2f} ({ends})"


def _share(found: Mapping[str, Any], place: int) -> str:
    """The share alone of the first set; of others also what they add to it."""
    if place == 0:
        return _interval(found["value"])
    return f"{found['value']['value']:.2f}; {_interval(found['beyond_first'], '+')}"


def _percent(estimate: Mapping[str, float]) -> str:
    value, low, high = (100 * estimate[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
