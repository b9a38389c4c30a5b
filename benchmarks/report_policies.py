"""The sections of the results page on the light policy: success, latency and serving."""

from __future__ import annotations

from typing import Any

from oatkit.types import budget_name

PUBLISHED = {
    "Diffusion Policy": "0.91 to 0.95",
    "BET": "0.70 to 0.79",
    "LSTM-GMM": "0.61 to 0.69",
}


def policy_table(record: dict[str, Any]) -> str:
    settings = record["settings"]
    row, budget = settings["reference"]
    lines = [
        "## The lightweight policy in MetaWorld\n",
        "Success in closed loop, in percent with Wilson 95 % intervals: the same policy (preset",
        f"`{settings['preset']}`) on each tokenizer's tokens, {settings['episodes']} episodes "
        "a task,",
        "goals that no demonstration has, the first half of a chunk executed. Learned tokenizers",
        f"have the light recipe where nothing else is said: {settings['light']['num_tokens']} "
        f"tokens, FSQ levels {settings['light']['levels']}.",
        "Rank: of the success on each task among all rows but `auto`, ties sharing the mean of",
        "their ranks, then the mean over tasks, as the paper does over its benchmarks.",
        "Milliseconds of a query were taken beside other work; only their order of magnitude",
        "counts. The last",
        f"column is the difference to `{row}` at {budget} on the same episodes, with its 95 % "
        "interval and",
        "the p-value of McNemar's exact test.\n",
    ]
    for observed, rows in record["results"].items():
        heading = {"state": "From state", "images": "From images and the arm's state"}[observed]
        lines += [f"### {heading}\n", *_success_table(rows), ""]
        lines += _auto_table(rows)
    return "\n".join([*lines, "(`benchmarks/policy_table.py`)\n"])


def _success_table(rows: dict[str, Any]) -> list[str]:
    schemes = [
        (name, _budget_name(b), b, row) for name, row in rows.items() for b in row["budgets"]
    ]
    tasks = list(dict.fromkeys(t["task"] for _, _, b, _ in schemes for t in b["tasks"]))
    fixed = [
        {t["task"]: t["success"]["rate"] for t in b["tasks"]}
        for _, _, b, _ in schemes
        if b["budget"] != "auto"
    ]
    ranks = iter(average_ranks(fixed))
    lines = [
        "| scheme | steps | budget | calls | ms | "
        f"{' | '.join(tasks)} | mean | rank | difference |",
        "|---|---|---|---|---|" + "---|" * (len(tasks) + 3),
    ]
    for name, budget, b, row in schemes:
        rates = {t["task"]: t["success"]["rate"] for t in b["tasks"]}
        cells = [f"{100 * rates[t]:.0f}" if t in rates else "" for t in tasks]
        rank = "" if b["budget"] == "auto" else f"{next(ranks):.1f}"
        lines.append(
            f"| `{name}` | {row['steps']} | {budget} | {b['calls']:.3g} | {_ms(b)} | "
            f"{' | '.join(cells)} | "
            f"{rate(b['success'])} | {rank} | {difference(row.get('against', {}).get(budget))} |"
        )
    return lines


def average_ranks(schemes: list[dict[str, float]]) -> list[float]:
    """The paper's: 1 is best on a task, ties share the mean of their ranks; then over tasks."""
    tasks = set.intersection(*(set(rates) for rates in schemes))
    found = []
    for own in schemes:
        ranks = []
        for task in tasks:
            better = sum(other[task] > own[task] for other in schemes)
            equal = sum(other[task] == own[task] for other in schemes)
            ranks.append(better + (equal + 1) / 2)
        found.append(sum(ranks) / len(ranks))
    return found


def _auto_table(rows: dict[str, Any]) -> list[str]:
    """Success against calls, of those rows that were also evaluated with `budget="auto"`."""
    stopping = {
        name: row
        for name, row in rows.items()
        if any(b["budget"] == "auto" for b in row["budgets"]) and len(row["budgets"]) > 1
    }
    if not stopping:
        return []
    lines = [
        '#### `budget="auto"` against fixed budgets\n',
        "Mean calls and tokens of a query; the difference is to all tokens on the same episodes.\n",
        "| policy on | budget | calls | tokens | ms | success | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in stopping.items():
        pairs = {pair["first"]: pair for pair in row["against_largest"]}
        for b in sorted(row["budgets"], key=lambda b: b["calls"]):
            pair = pairs.get(_budget_name(b))
            lines.append(
                f"| `{name}` | {_budget_name(b)} | {b['calls']:.2f} | {b['tokens']:.1f} | {_ms(b)} "
                f"| {rate(b['success'])} | {difference(pair and _turned(pair))} |"
            )
    return [*lines, ""]


def policy_pusht(record: dict[str, Any]) -> str:
    settings = record["settings"]
    rows = [
        f"| `{name}` | {'keypoints' if 'keypoints' in name else 'state'} | {_budget_name(b)} | "
        f"{b['calls']:.2f} | {_ms(b)} | "
        f"{b['score']:.3f} +- {half:.3f} | {rate(b['success'])} |"
        for name, row in record["results"].items()
        for b, half in zip(row["budgets"], row["score_half_widths"], strict=True)
    ]
    protocol = next(iter(record["results"].values()))["protocol"]
    return "\n".join(
        [
            "## PushT from human demonstrations\n",
            f"The light policy, preset `{settings['preset']}`, "
            + ", ".join(f"`{name}` {row['steps']}" for name, row in record["results"].items())
            + f" steps; {protocol['horizon']} actions a chunk,",
            f"{protocol['execute']} executed, {settings['episodes']} episodes of 300 steps. Score: "
            "clip(coverage / 0.95, 0, 1), the best of an episode, mean with",
            "its 95 % interval. Success: more than 95 % covered, in percent.\n",
            "| tokens | from | budget | calls | ms | score | success |",
            "|---|---|---|---|---|---|---|",
            *rows,
            *(f"| {name} | keypoints | | | | {score} | |" for name, score in PUBLISHED.items()),
            "",
            "The last rows are published numbers.",
            "(`benchmarks/policy_pusht.py`)\n",
        ]
    )


def policy_latency(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    rows = [
        f"| {name} | {row['calls']} | {row['generate_ms']:.2f} | {row['call_over_bare']:.2f} | "
        f"{row['faster_than_16_token_wise']:.2f} | {row['encode_ms']:.2f} | "
        f"{row['decode_ms']:.2f} | {row['whole_ms']:.2f} |"
        for name, row in result["schedules"].items()
    ]
    return "\n".join(
        [
            "## Latency of the light policy\n",
            f"Preset `{settings['preset']}` ({result['parameters'] / 1e6:.1f}M parameters), one "
            f"observation, {settings['threads']} threads of a machine with a matmul rate of",
            f"{settings['matmul_gflops']:.0f} GFLOP/s; medians of {settings['repeats']} rounds in "
            "which all were timed in turn, in milliseconds. From the encoded",
            f"observation to the first id takes {result['one_call_ms']:.2f}, "
            f"{result['one_call_over_bare']:.2f} times a bare matrix-vector pass over the "
            f"{result['weights_read'] / 1e6:.1f}M",
            f"weights of the generating network ({result['bare_ms']:.2f}); the target is 2. The "
            "target for powers of two is 2.5 times faster than",
            "token-wise.\n",
            "| tokens | calls | to the last id | a call / bare pass | times faster | encoder | "
            "decoder | all |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "The first public OAT code takes 25 for 8 tokens token-wise and 8 to decode them, with",
            "5M parameters on 2 cores of 240 GFLOP/s.",
            "(`benchmarks/policy_latency.py`)\n",
        ]
    )


def serve_load(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    named = {
        "one client": result["one_client"],
        "one at a time": result["one_at_a_time"],
        "batched": result["batched"],
        "first prefix": result["first_prefix"],
        **{f"deadline {ms} ms": row for ms, row in result["deadlines_ms"].items()},
    }
    rows = [
        f"| {name} | {row['clients']} | {row['per_second']:.0f} | {row['p50_ms']:.1f} | "
        f"{row['p99_ms']:.1f} | {row['slowest_over_mean']:.2f} | {row['mean_budget']:.1f} | "
        f"{row.get('in_time', '-')} | {row['errors']} |"
        for name, row in named.items()
    ]
    return "\n".join(
        [
            "## A policy served under load\n",
            f"`oatkit serve`, preset `{settings['preset']}` from state, clients on the same "
            f"machine that ask without pause for {settings['seconds']:g} s. In",
            f"batches of up to {settings['max_batch']} the server answers "
            f"{result['times_faster']:.1f} times as many requests as one at a time; the target is "
            "3. The slowest client",
            "must get half of the mean. Deadlines are 1.5, 3 and 6 times what a first prefix takes "
            "(99th percentile of the",
            "clients that ask for one); 99 % of the replies must be in time. The machine's load "
            f"before the run was {settings['load_before']:g}.\n",
            "| load | clients | replies/s | p50 ms | p99 ms | slowest / mean | tokens | in time | "
            "errors |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            *([f"\nNot met: {'; '.join(result['unmet'])}.\n"] if result["unmet"] else []),
            "(`benchmarks/serve_load.py`)\n",
        ]
    )


def _budget_name(budget: dict[str, Any]) -> str:
    return budget_name(budget["budget"])


def _ms(budget: dict[str, Any]) -> str:
    return "" if budget["latency_ms"] is None else f"{budget['latency_ms']:.3g}"


def rate(success: dict[str, Any]) -> str:
    low, high = 100 * success["low"], 100 * success["high"]
    return f"{100 * success['rate']:.1f} ({low:.0f} - {high:.0f})"


def difference(pair: dict[str, Any] | None) -> str:
    if pair is None:
        return ""
    d, low, high = (100 * pair[key] + 0.0 for key in ("difference", "low", "high"))
    return f"{d:+.1f} ({low:+.0f} to {high:+.0f}), p {pair['p_value']:.2g}"


def _turned(pair: dict[str, Any]) -> dict[str, Any]:
    """The first less the second."""
    return {
        **pair,
        "difference": -pair["difference"],
        "low": -pair["high"],
        "high": -pair["low"],
    }
