"""The sections of the results page on the light policy: success, latency and serving."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from benchmarks.closed_loop import Cell, comparison, over_seeds, pooled
from benchmarks.markdown import paragraph, recipes, said, section, table
from oatkit.evaluation.benchmark_statistics import average_ranks
from oatkit.jobs.paper_tables import PaperTable, paper_table
from oatkit.types import budget_name

PUBLISHED = {
    "Diffusion Policy": "0.91 to 0.95",
    "BET": "0.70 to 0.79",
    "LSTM-GMM": "0.61 to 0.69",
}
PUSHT_AIM = 0.8
"""Score on PushT that was aimed at."""
OBSERVED = {"state": "From state", "images": "From images and the arm's state"}


def policy_table(record: dict[str, Any]) -> str:
    row, budget = record["settings"]["reference"]
    rows = [row for table in record["results"].values() for row in table.values()]
    parts = [
        paragraph(
            f"The same policy (preset `{said(rows, 'preset')}`) is trained on each tokenizer's "
            "tokens; the table shows its success in closed loop, in percent with Wilson's 95 % "
            "intervals.",
            f"There are {said(rows, 'episodes')} episodes a task, with goals that no demonstration "
            "has; the first half of a chunk is executed.",
            "Tokens are chosen at the temperature of the row (0 takes the likeliest); steps are "
            "those of the policy's training; where it has several seeds, episodes of all count, "
            "and the success of the worst and the best training is given.",
            "All rows but `auto` are ranked by their success on each task, as the paper ranks them "
            "on each benchmark; ties share the mean of their ranks, and the ranks are averaged "
            "over the tasks.",
            "The milliseconds of a query were measured beside other work; only their order of "
            "magnitude counts.",
            f"The last column is the difference to `{row}` at {budget} on the same episodes, with "
            "its 95 % interval and the p-value of McNemar's exact test; it is empty where the two "
            "do not both say which episodes they solved.",
        )
    ]
    for observed, rows in record["results"].items():
        parts += [f"### {OBSERVED[observed]}", paragraph(recipes(rows))]
        parts += [_success_table(rows), *_auto_table(rows)]
    return section("The lightweight policy in MetaWorld", *parts, script="policy_table")


def _success_table(rows: dict[str, Any]) -> str:
    schemes = [
        (scheme, _together(found), own)
        for scheme, own in over_seeds(rows).items()
        for found in zip(*(row["budgets"] for row in own), strict=True)
    ]
    tasks = list(dict.fromkeys(t["task"] for _, b, _ in schemes for t in b["tasks"]))
    fixed = [_task_rates(b) for _, b, _ in schemes if b["budget"] != "auto"]
    ranks = iter(average_ranks(fixed))
    lines = []
    for name, b, own in schemes:
        row, rates, budget = own[0], _task_rates(b), budget_name(b["budget"])
        lines.append(
            (
                *(f"`{name}`", str(row["tokens"]), str(row["steps"]), _temperature(row)),
                *(b["seeds"], budget, f"{b['calls']:.3g}", _ms(b)),
                *(f"{100 * rates[t]:.0f}" if t in rates else "" for t in tasks),
                rate(b["success"]),
                "" if budget == "auto" else f"{next(ranks):.1f}",
                difference(comparison(own, budget)),
            )
        )
    headings = (
        *("scheme", "tokens", "steps", "temperature", "seeds", "budget", "calls", "ms", *tasks),
        *("mean", "rank", "difference"),
    )
    return table(headings, lines)


def _together(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same budget of all seeds of a scheme, and what the seeds are."""
    if len(found) == 1:
        return {**found[0], "seeds": "1"}
    each = [100 * b["success"]["rate"] for b in found]
    by_task = [{t["task"]: t["success"] for t in b["tasks"]} for b in found]
    times = [b["latency_ms"] for b in found if b["latency_ms"] is not None]
    return {
        "budget": found[0]["budget"],
        "calls": fmean(b["calls"] for b in found),
        "latency_ms": fmean(times) if times else None,
        "tasks": [
            {"task": task, "success": pooled([own[task] for own in by_task])} for task in by_task[0]
        ],
        "success": pooled([b["success"] for b in found]),
        "seeds": f"{len(found)} ({min(each):.1f} to {max(each):.1f})",
    }


def _task_rates(budget: dict[str, Any]) -> dict[str, float]:
    return {t["task"]: t["success"]["rate"] for t in budget["tasks"]}


def _temperature(row: dict[str, Any]) -> str:
    return f"{row['protocol']['sampling']['temperature']:g}"


def _auto_table(rows: dict[str, Any]) -> list[str]:
    """Success against calls, of the rows that were also evaluated with `budget="auto"`."""
    lines = []
    for name, row in rows.items():
        budgets = row["budgets"]
        if len(budgets) == 1 or all(b["budget"] != "auto" for b in budgets):
            continue
        pairs = {pair["first"]: pair for pair in row["against_largest"]}
        for b in sorted(budgets, key=lambda b: b["calls"]):
            pair = pairs.get(budget_name(b["budget"]))
            lines.append(
                (
                    *(f"`{name}`", budget_name(b["budget"]), f"{b['calls']:.2f}"),
                    *(f"{b['tokens']:.1f}", _ms(b), rate(b["success"])),
                    difference(pair and _reversed(pair)),
                )
            )
    if not lines:
        return []
    return [
        '#### `budget="auto"` against fixed budgets',
        "Calls and tokens are the means of a query; the difference is to all tokens on the same "
        "episodes.",
        table(("policy on", "budget", "calls", "tokens", "ms", "success", "difference"), lines),
    ]


def policy_sweep(record: dict[str, Any]) -> str:
    tables = record["results"]
    rows = [row for found in tables.values() for row in found.values()]
    parts = [
        paragraph(
            f"The light policy (preset `{said(rows, 'preset')}`) from state on `oat` tokens, on "
            f"MetaWorld's four tasks with {said(rows, 'episodes')} episodes each; all tokens are "
            "generated. Success is in percent with Wilson's 95 % intervals, over all seeds.",
            "The paper's numbers are of LIBERO-Long: only which of two rows is better can be "
            "compared.",
        )
    ]
    for name, found in tables.items():
        wanted = paper_table(name)
        parts += [f"### {wanted.title}", paragraph(wanted.shows, recipes(found))]
        parts.append(_sweep_table(wanted, found))
    return section("The paper's ablations in closed loop", *parts, script="policy_sweep")


def _sweep_table(wanted: PaperTable, found: dict[str, Any]) -> str:
    lines = []
    for scheme, own in over_seeds(found).items():
        row, name = own[0], Cell.labeled(scheme).name
        (paper,) = wanted.numbers[name, "all"].values()
        success = pooled([each["budgets"][-1]["success"] for each in own])
        lines.append(
            (
                *(f"`{scheme}`", str(row["protocol"]["execute"]), str(row["steps"])),
                *(str(row["tokenizer_steps"]), _temperature(row), str(len(own))),
                *(rate(success), f"{paper:g}"),
            )
        )
    headings = ("row", "executed", "steps", "tokenizer's steps", "temperature", "seeds")
    return table((*headings, "success", "the paper"), lines)


def policy_pusht(record: dict[str, Any]) -> str:
    results = record["results"]
    protocol = next(iter(results.values()))["protocol"]
    rows = [
        (
            *(f"`{name}`", "keypoints" if "keypoints" in name else "state"),
            *(str(row["steps"]), _temperature(row)),
            *(budget_name(b["budget"]), f"{b['calls']:.2f}", _ms(b)),
            *(f"{b['score'] or 0:.3f} +- {half:.3f}", rate(b["success"])),
        )
        for name, row in results.items()
        for b, half in zip(row["budgets"], row["score_half_widths"], strict=True)
    ]
    rows += [
        (name, "keypoints", "", "", "", "", "", score, "") for name, score in PUBLISHED.items()
    ]
    return section(
        "PushT from human demonstrations",
        paragraph(
            f"The light policy has the preset `{said(results.values(), 'preset')}`; steps are "
            "those of its training, and tokens are chosen at the temperature of the row.",
            f"A chunk has {protocol['horizon']} actions, of which {protocol['execute']} are "
            f"executed; there are {said(results.values(), 'episodes')} episodes of 300 steps.",
            "The score of an episode is the best clip(coverage / 0.95, 0, 1) of its steps; the "
            "table shows the mean with its 95 % interval.",
            "An episode is a success, in percent, if more than 95 % is covered.",
            recipes(results),
        ),
        table(
            (
                *("tokens", "from", "steps", "temperature", "budget", "calls", "ms", "score"),
                "success",
            ),
            rows,
        ),
        "The last rows are published numbers.",
        *_pusht_aim(results),
        script="policy_pusht",
    )


def _pusht_aim(results: dict[str, Any]) -> list[str]:
    """A sentence on the score that was aimed at with all tokens."""
    found = []
    for name, row in results.items():
        whole = [b for b in row["budgets"] if b["budget"] != "auto"][-1]
        score = whole["score"] or 0
        reached = "reached" if score >= PUSHT_AIM else "missed"
        found.append(f"`{name}` {reached} it with {score:.3f}")
    return [
        paragraph(
            f"Aimed at was a score of {PUSHT_AIM:.2f} with all tokens, from the state and from "
            f"keypoints: {', '.join(found)} (one training each)."
        )
    ]


def policy_latency(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    rows = [
        (
            *(name, str(row["calls"]), f"{row['generate_ms']:.2f}"),
            *(f"{row['call_over_bare']:.2f}", f"{row['faster_than_16_token_wise']:.2f}"),
            *(f"{row['encode_ms']:.2f}", f"{row['decode_ms']:.2f}", f"{row['whole_ms']:.2f}"),
        )
        for name, row in result["schedules"].items()
    ]
    headings = (
        *("tokens", "calls", "to the last id", "a call / bare pass", "times faster"),
        *("encoder", "decoder", "all"),
    )
    return section(
        "Latency of the light policy",
        paragraph(
            f"The policy has the preset `{settings['preset']}` "
            f"({result['parameters'] / 1e6:.1f}M parameters) and sees one observation; it runs on "
            f"{settings['threads']} threads of a machine with a matmul rate of "
            f"{settings['matmul_gflops']:.0f} GFLOP/s.",
            f"Times are medians in milliseconds of {settings['repeats']} rounds in which "
            "everything was timed in turn.",
            "From the encoded observation to the first id it takes "
            f"{result['one_call_ms']:.2f}, which is {result['one_call_over_bare']:.2f} times a "
            f"bare matrix-vector pass over the {result['weights_read'] / 1e6:.1f}M weights of the "
            f"generating network ({result['bare_ms']:.2f}); the target is 2.",
            "Powers of two shall be 2.5 times faster than token-wise.",
        ),
        table(headings, rows),
        paragraph(
            "The first public OAT code takes 25 for 8 tokens token-wise and 8 to decode them, with "
            "5M parameters on 2 cores of 240 GFLOP/s."
        ),
        script="policy_latency",
    )


def auto_depth(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    rows = [
        (
            *(f"{name}, {policy['steps']} steps", budget_name(row["budget"])),
            "" if row["margin"] is None else str(row["margin"]),
            *(f"{row['tokens']:.3g}", f"{row['calls']:.3g}", f"{row['ms']:.1f}"),
            *(f"{row['share_of_all']:.2f}", f"{row['distance']:.2f}"),
            f"{row['error']:.2f}" if "error" in row else "",
        )
        for name, policy in result.items()
        for row in policy["rows"]
    ]
    headings = (
        *("policy", "budget", "margin", "tokens", "calls", "ms", "ms, of all tokens"),
        *("distance", "error, of all tokens"),
    )
    return section(
        'Time that `budget="auto"` saves',
        paragraph(
            "Policies are named with their tokens, the calls for all of them and the steps that "
            "they were trained.",
            "Each policy is calibrated on one half of the episodes that it held out and timed on "
            "observations of the other, one at a time, on a machine that had other work too: "
            "compare milliseconds within a policy only.",
            f"They are means over observations of the median of {settings['repeats']} rounds in "
            "which every budget was timed in turn, from the observation to the chunk.",
            "The distance is the mean squared one to the chunk of all tokens, divided by what the "
            "tokenizer itself loses; the margin is the limit of it that `auto` is calibrated to, "
            f"{settings['margin']} unless a benchmark says otherwise.",
            "Policies with an offset head take the likeliest tokens and are calibrated to a mean "
            "absolute error instead, that of all tokens and as much more as the margin says, "
            f"{settings['error_margin']} unless a benchmark says otherwise.",
        ),
        table(headings, rows),
        paragraph(*(f"{name}: {row['note']}" for name, row in result.items() if row["note"])),
        script="auto_depth",
    )


def serve_load(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    loads = {
        "one client": result["one_client"],
        "one at a time": result["one_at_a_time"],
        "batched": result["batched"],
        "first prefix": result["first_prefix"],
        **{f"deadline {ms} ms": row for ms, row in result["deadlines_ms"].items()},
    }
    rows = [
        (
            *(name, str(row["clients"]), f"{row['per_second']:.0f}", f"{row['p50_ms']:.1f}"),
            *(f"{row['p99_ms']:.1f}", f"{row['slowest_over_mean']:.2f}"),
            *(f"{row['mean_budget']:.1f}", str(row.get("in_time", "-")), str(row["errors"])),
        )
        for name, row in loads.items()
    ]
    headings = (
        *("load", "clients", "replies/s", "p50 ms", "p99 ms", "slowest / mean"),
        *("tokens", "in time", "errors"),
    )
    return section(
        "A policy served under load",
        paragraph(
            f"`oatkit serve` runs a policy of preset `{settings['preset']}` from state; clients on "
            f"the same machine send requests without pause for {settings['seconds']:g} s.",
            f"In batches of up to {settings['max_batch']} the server answers "
            f"{result['times_faster']:.1f} times as many requests as one at a time; the target is "
            "3.",
            "The slowest client must get at least half of the mean.",
            "Deadlines are 1.5, 3 and 6 times the time of a first prefix (99th percentile of the "
            "clients that ask for one); 99 % of the replies must be in time.",
            f"The machine's load before the run was {settings['load_before']:g}.",
        ),
        table(headings, rows),
        f"Not met: {'; '.join(result['unmet'])}." if result["unmet"] else "",
        script="serve_load",
    )


def rate(success: dict[str, Any]) -> str:
    """A success rate in percent, with its interval."""
    low, high = 100 * success["low"], 100 * success["high"]
    return f"{100 * success['rate']:.1f} ({low:.0f} - {high:.0f})"


def difference(pair: dict[str, Any] | None) -> str:
    """The difference of a paired comparison in points, with interval and p-value."""
    if pair is None:
        return ""
    d, low, high = (100 * pair[key] + 0.0 for key in ("difference", "low", "high"))
    return f"{d:+.1f} ({low:+.0f} to {high:+.0f}), p {pair['p_value']:.2g}"


def _ms(budget: dict[str, Any]) -> str:
    return "" if budget["latency_ms"] is None else f"{budget['latency_ms']:.3g}"


def _reversed(pair: dict[str, Any]) -> dict[str, Any]:
    """The same comparison as the first less the second."""
    return {
        **pair,
        "difference": -pair["difference"],
        "low": -pair["high"],
        "high": -pair["low"],
    }
