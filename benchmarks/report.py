"""Writes pages and drawings of the docs from `benchmarks/results/`: no number is typed.

python -m benchmarks.report
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import reproduction
from benchmarks.drawings import DRAWINGS
from benchmarks.record import RESULTS

DOCS = Path(__file__).parent.parent / "docs"

INTRODUCTION = """\
# Results

Written by `python -m benchmarks.report` from `benchmarks/results/`; `make bench` measures anew.
Each JSON has the commit, the seed, the versions and the machine.
"""


def main() -> None:
    for path, text in written().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path}")


def written() -> dict[Path, str]:
    """Everything in the docs that is made from results, by its path."""
    return {
        DOCS / "results.md": render(),
        DOCS / "reproduction.md": reproduction.render(),
        **{DOCS / "drawings" / f"{name}.svg": draw() for name, draw in DRAWINGS.items()},
    }


def render() -> str:
    sections = (
        *(INTRODUCTION, data_memory(load("data_memory")), sampling()),
        *(rate_distortion(), predictability(), convergence(), tokenizer_speed(), fast_speed()),
        *(section(load(name)) for name, section in LATER.items() if is_measured(name)),
    )
    return "\n".join(sections)


def is_measured(name: str) -> bool:
    return (RESULTS / f"{name}.json").exists()


def load(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return record


def data_memory(record: dict[str, Any]) -> str:
    runs = {k: v for k, v in record["results"].items() if isinstance(v, dict)}
    rows = [
        f"| {name} | {run['start_mb']} | {run['sampling_mb']} | {run['peak_mb']} |"
        for name, run in runs.items()
    ]
    growth = max(v for v in record["results"].values() if isinstance(v, float))
    return "\n".join(
        [
            "## Memory while opening and sampling a dataset\n",
            "Anonymous resident memory (RssAnon, MB) of a process that has torch imported, opens a",
            "LeRobot v3.0 dataset, computes statistics and draws "
            f"{record['settings']['batches']} batches of {record['settings']['batch_size']}",
            'chunks. "cold" decodes the dataset into an empty cache, "warm" finds it there.\n',
            "| dataset | after import | while sampling | peak |",
            "|---|---|---|---|",
            *rows,
            "",
            f"From 100 thousand to a million frames it grows by at most {100 * growth:.1f} %; the "
            "target is 10 %.",
            "(`benchmarks/data_memory.py`)\n",
        ]
    )


def sampling() -> str:
    record = load("data_sampling")
    result, chunk = record["results"], record["settings"]["chunk"]
    return "\n".join(
        [
            "## Drawing random batches of chunks\n",
            f"Batches of {record['settings']['batch_size']} chunks of {chunk[0]} x {chunk[1]} with "
            "the state, on one core:",
            f"{result['chunks_per_s']:,} chunks a second (median of 7 runs, "
            f"{result['lowest']:,} to {result['highest']:,}); the target is 100,000.",
            "(`benchmarks/data_sampling.py`)\n",
        ]
    )


DATASETS = {
    "metaworld": "MetaWorld, scripted experts on the paper's four tasks, 50 episodes each",
    "pusht": "PushT, human demonstrations",
    "cr5": "Dobot CR5, a real arm guided by hand",
}
BUDGETS = (1, 2, 4, 8, 16)


def rate_distortion() -> str:
    record = load("tokenizer_rate_distortion")
    lines = [
        "## Rate and distortion on held-out episodes\n",
        "Mean squared error x 1000 in normalised units (every dimension in [-1, 1]; MetaWorld's",
        f"raw units are the same), chunks of {record['settings']['horizon']} actions, preset "
        f"`{record['settings']['preset']}`, a tenth of the episodes held out. All trained kinds",
        'have the same recipe and size. "Gaussian" is what an ideal linear code of a Gaussian',
        "source of the same covariance leaves at those bits. `fast` is fitted on the same data,",
        "the paper uses the published universal one. Other rows were trained at the same time, so",
        "only the order of magnitude of the seconds counts.\n",
    ]
    for data, rows in record["results"].items():
        lines += [f"### {DATASETS[data]}\n", *_rate_distortion_table(rows), ""]
        if "splits" in rows:
            lines += [*_splits_table(rows["splits"]), ""]
    return "\n".join([*lines, "(`benchmarks/tokenizer_rate_distortion.py`)\n"])


def _rate_distortion_table(rows: dict[str, Any]) -> list[str]:
    table = {name: row for name, row in rows.items() if name != "splits"}
    lines = [
        "| kind | steps | seconds | " + " | ".join(map(str, BUDGETS)) + " | other budgets |",
        "|---|---|---|" + "---|" * len(BUDGETS) + "---|",
    ]
    reference = next(row for row in table.values() if len(row["budgets"]) == len(BUDGETS))
    cells = [f"{1e3 * b['gaussian_mse_normalized']:.3g}" for b in reference["budgets"]]
    lines.append("| Gaussian | | | " + " | ".join(cells) + " | |")
    for name, row in table.items():
        found = {b["budget"]: b for b in row["budgets"]}
        cells = [
            f"{1e3 * found[k]['mse_normalized']:.3g}" if k in found and len(found) > 1 else ""
            for k in BUDGETS
        ]
        alone = row["budgets"][-1]
        other = f"{1e3 * alone['mse_normalized']:.3g} at {alone['tokens']:.3g}"
        lines.append(
            f"| `{name}` | {row['steps'] or ''} | {row['seconds']:.0f} | "
            + " | ".join(cells)
            + f" | {other if len(found) == 1 else ''} |"
        )
    return lines


def _splits_table(splits: dict[str, list[float]]) -> list[str]:
    return [
        "A tail of tables (`klt`) behind the first tokens of the trained `oat`:\n",
        "| learned tokens | " + " | ".join(map(str, BUDGETS)) + " |",
        "|---|" + "---|" * len(BUDGETS),
        *(
            f"| {count} | " + " | ".join(f"{1e3 * error:.3g}" for error in errors) + " |"
            for count, errors in splits.items()
        ),
    ]


def predictability() -> str:
    record = load("token_predictability")
    rows = [
        f"| `{name}` | "
        + " | ".join(f"{row['accuracy'][slot - 1]:.0%}" for slot in BUDGETS)
        + " | "
        + " | ".join(f"{1e3 * row['mse'][str(k)]:.3g}" for k in BUDGETS)
        + " |"
        for name, row in record["results"].items()
    ]
    return "\n".join(
        [
            "## Can a policy predict the tokens?\n",
            f"The light policy from MetaWorld's state, {record['settings']['steps']} steps on each "
            "tokenizer, held-out episodes. Left: how",
            "often the likeliest id of a slot is the true one, given the true ids before. Right:",
            "mean squared error x 1000 of the chunks that the policy samples itself, by budget.\n",
            "| tokenizer | "
            + " | ".join(f"slot {k}" for k in BUDGETS)
            + " | "
            + " | ".join(f"error at {k}" for k in BUDGETS)
            + " |",
            "|---|" + "---|" * 10,
            *rows,
            "",
            "(`benchmarks/token_predictability.py`)\n",
        ]
    )


def tokenizer_sweep(record: dict[str, Any]) -> str:
    """Levels and nesting by budget; horizons by tokens, each at all of its tokens."""
    rows = record["results"]
    by_budget = [row for row in rows if row["ablation"] != "horizons"]
    horizons = sorted({row["horizon"] for row in rows if row["ablation"] == "horizons"})
    whole = {
        (row["horizon"], row["tokens"]): row["mse_normalized"][str(row["tokens"])]
        for row in rows
        if row["ablation"] == "horizons"
    }
    counts = sorted({tokens for _, tokens in whole})
    return "\n".join(
        [
            "## The paper's ablations of the tokenizer\n",
            f"`oat-pow2` on MetaWorld, {record['settings']['steps']} steps each, error x 1000 in "
            "normalised units on",
            "held-out episodes. So short a training orders settings, it does not finish them.\n",
            "| FSQ levels | vocabulary | nested | " + " | ".join(map(str, BUDGETS)) + " |",
            "|---|---|---|" + "---|" * len(BUDGETS),
            *(
                f"| {list(row['levels'])} | {row['vocabulary']} | "
                f"{'yes' if row['nested'] else 'no'} | "
                + " | ".join(_thousandths(row["mse_normalized"].get(str(k))) for k in BUDGETS)
                + " |"
                for row in by_budget
            ),
            "",
            "All tokens of a chunk, by its horizon:\n",
            "| tokens | " + " | ".join(f"{h} actions" for h in horizons) + " |",
            "|---|" + "---|" * len(horizons),
            *(
                f"| {k} | " + " | ".join(_thousandths(whole.get((h, k))) for h in horizons) + " |"
                for k in counts
            ),
            "",
            "(`benchmarks/tokenizer_sweep.py`)\n",
        ]
    )


def _thousandths(value: float | None) -> str:
    return "" if value is None else f"{1e3 * value:.3g}"


def convergence() -> str:
    record = load("oat_convergence")
    settings = record["settings"]
    rows = [
        f"| {name} | " + " | ".join(f"{1e3 * error:.3g}" for error in row["mse"]) + " |"
        for name, row in record["results"].items()
    ]
    return "\n".join(
        [
            "## What makes `oat` converge faster\n",
            f"One change at a time, {settings['steps']} steps of batch {settings['batch_size']}, "
            "size `small`, MetaWorld, error x 1000 on held-out",
            "episodes at each budget. The last row is not trained at all.\n",
            "| change | " + " | ".join(map(str, settings["budgets"])) + " |",
            "|---|" + "---|" * len(settings["budgets"]),
            *rows,
            "",
            "(`benchmarks/oat_convergence.py`)\n",
        ]
    )


def tokenizer_speed() -> str:
    record = load("tokenizer_speed")
    rows = [
        f"| `{name}` | {r['parameters'] / 1e6:.1f}M | {r['batch_size']} | "
        + " | ".join(f"{r[f'{job}_chunks_per_s']:,.0f}" for job in ("train", "encode", "decode"))
        + f" | {r['matmul_gflops']:.0f} | "
        + " | ".join(f"{r[f'{job}_share']:.2f}" for job in ("train", "encode", "decode"))
        + f" | {r['encode_one_ms']:.1f} | {r['decode_one_ms']:.1f} |"
        for name, r in record["results"].items()
    ]
    return "\n".join(
        [
            "## Speed of the learned tokenizers at the paper's size\n",
            f"Chunks of {' x '.join(map(str, record['settings']['chunk']))}, width 256, "
            f"{record['settings']['threads']} threads. Chunks a second; the share is that in the",
            "best 2048 x 2048 product of the same process in float32 (GFLOP/s), the target a half;",
            "milliseconds are for a single chunk.\n",
            "| kind | parameters | batch | train/s | encode/s | decode/s | matmul | train share "
            "| encode share | decode share | encode one, ms | decode one, ms |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "The last rows have the width and depth of the first public OAT code, of which 74,",
            "1178 and 552 chunks a second are known on 2 cores of 240 GFLOP/s, 4.1 and 8.2 ms for",
            "one.",
            "(`benchmarks/tokenizer_speed.py`)\n",
        ]
    )


def fast_speed() -> str:
    result = load("fast_speed")["results"]
    return "\n".join(
        [
            "## FAST in batches\n",
            f"Chunks a second: {result['encode_batch_chunks_per_s']:,} encoded in a batch against "
            f"{result['encode_loop_chunks_per_s']:,} one by one,",
            f"{result['decode_batch_chunks_per_s']:,} decoded against "
            f"{result['decode_loop_chunks_per_s']:,} ({result['mean_tokens']} tokens a chunk).",
            "(`benchmarks/fast_speed.py`)\n",
        ]
    )


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
        if b["budget"] is not None
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
        rank = "" if b["budget"] is None else f"{next(ranks):.1f}"
        lines.append(
            f"| `{name}` | {row['steps']} | {budget} | {b['calls']:.3g} | {_ms(b)} | "
            f"{' | '.join(cells)} | "
            f"{_rate(b['success'])} | {rank} | {_difference(row.get('against', {}).get(budget))} |"
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
        if any(b["budget"] is None for b in row["budgets"]) and len(row["budgets"]) > 1
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
                f"| {_rate(b['success'])} | {_difference(pair and _turned(pair))} |"
            )
    return [*lines, ""]


def _budget_name(budget: dict[str, Any]) -> str:
    return "auto" if budget["budget"] is None else str(budget["budget"])


def _ms(budget: dict[str, Any]) -> str:
    return "" if budget["latency_ms"] is None else f"{budget['latency_ms']:.3g}"


def _rate(success: dict[str, Any]) -> str:
    low, high = 100 * success["low"], 100 * success["high"]
    return f"{100 * success['rate']:.1f} ({low:.0f} - {high:.0f})"


def _difference(pair: dict[str, Any] | None) -> str:
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


def policy_pusht(record: dict[str, Any]) -> str:
    settings = record["settings"]
    rows = [
        f"| `{name}` | {'keypoints' if 'keypoints' in name else 'state'} | {_budget_name(b)} | "
        f"{b['calls']:.2f} | {_ms(b)} | "
        f"{b['score']:.3f} +- {half:.3f} | {_rate(b['success'])} |"
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


def vlm_pipeline(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    ways = ("as it is", "other images", "other text", "its token head")
    lines = [
        "## Vision-language policies from images, text and the arm's state\n",
        f"Backbones with random weights, {settings['demonstrations']} demonstrations each of "
        + " and ".join(f"`{task}`" for task in settings["tasks"])
        + ", whose scenes look alike:",
        "what to do is in the text alone, where the door is in the image alone. "
        f"{settings['steps']} steps of batch",
        f"{settings['batch_size']}, images of {settings['image_size']} x "
        f"{settings['image_size']}, the same seeds for all. Success in percent of "
        f"{settings['episodes']} episodes a task of at most",
        f"{settings['max_steps']} steps, the likeliest tokens taken, with Wilson 95 % intervals, "
        "on goals that no demonstration has; then with the images of other",
        "moments, and with the instruction of the other task. The difference is to the mean "
        "demonstration of the task,",
        "replayed on the same episodes. Token accuracy is on held-out demonstrations, in percent, "
        "with images and texts shuffled.\n",
        "| policy | success | other images | other text | token head | difference | tokens right "
        "| other images | other text |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {_rate(row['all'])} | | | | | | | |"
            for name, row in result["baselines"].items()
        ),
    ]
    for name, row in result["policies"].items():
        loops = (row["closed loop"].get(way) for way in ways)
        right = (row["token accuracy"].get(way) for way in ways[:3])
        cells = [_rate(loop["all"]) if loop else "" for loop in loops]
        cells.append(_difference(row["against the mean demonstration"]))
        cells += [f"{100 * share:.1f}" if share is not None else "" for share in right]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    if result["overfitting"]:
        lines += [
            "\n16 chunks learnt by heart, {} steps:\n".format(settings["overfit_steps"]),
            "| policy | tokens right | error of the chunk (normalised, squared) |",
            "|---|---|---|",
        ]
    for name, row in result["overfitting"].items():
        error = row.get("mse, normalised")
        shown = "" if error is None else f"{error:.2g}"
        lines.append(f"| `{name}` | {100 * row['token accuracy']:.1f} | {shown} |")
    return "\n".join([*lines, "", "(`benchmarks/vlm_pipeline.py`)\n"])


def vlm_speed(record: dict[str, Any]) -> str:
    result = record["results"]
    families = {name: row for name, row in result.items() if name != "predicted"}
    works = list(next(iter(families.values()))["ms"])
    lines = [
        "## Latency of vision-language policies\n",
        f"Backbones of about 100M parameters on the CPU, {record['settings']['threads']} threads, "
        "batch 1, medians in milliseconds. A chunk has",
        f"{record['settings']['tokens']} tokens; all but the prefill and what is recomputed come "
        "after the prefill. Targets: power of two 2.5",
        "times faster than token-wise, cached token-wise with its prefill 5 times faster than "
        "recomputed.\n",
        f"| | {' | '.join(families)} |",
        "|---|" + "---|" * len(families),
    ]
    rows = {
        "parameters": [f"{row['parameters'] / 1e6:.0f}M" for row in families.values()],
        "context slots": [str(row["context_slots"]) for row in families.values()],
        **{work: [f"{row['ms'][work]:.1f}" for row in families.values()] for work in works},
        "times faster by powers of two": [f"{r['pow2_speedup']:.2f}" for r in families.values()],
        "times faster by the cache": [f"{r['cache_speedup']:.2f}" for r in families.values()],
    }
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    ways = _first(result["predicted"])["calls"]
    lines += [
        "\nPublished sizes in bfloat16 as a roofline: the larger of counted FLOPs and read bytes "
        "over the data sheet's",
        "rates, one image of 224 x 224, prefill included, in milliseconds.\n",
        "| backbone | parameters | with expert | card | prefill | "
        + " | ".join(f"{way}, {calls} calls" for way, calls in ways.items())
        + " |",
        "|---|---|---|---|---|" + "---|" * len(ways),
    ]
    for name, row in result["predicted"].items():
        size = row["parameters"]
        for card in (key for key in row if isinstance(row[key], dict) and "chunk_ms" in row[key]):
            chunks = " | ".join(f"{row[card]['chunk_ms'][way]:.1f}" for way in ways)
            lines.append(
                f"| {name} | {size['whole'] / 1e9:.2f}B | "
                f"{(size['whole'] + size['expert']) / 1e9:.2f}B | {card} | "
                f"{row[card]['prefill_ms']:.1f} | {chunks} |"
            )
    return "\n".join([*lines, "", "(`benchmarks/vlm_speed.py`)\n"])


def _first(values: dict[str, Any]) -> Any:
    return next(iter(values.values()))


PUBLISHED = {
    "Diffusion Policy": "0.91 to 0.95",
    "BET": "0.70 to 0.79",
    "LSTM-GMM": "0.61 to 0.69",
}
LATER = {
    "tokenizer_sweep": tokenizer_sweep,
    "policy_table": policy_table,
    "policy_pusht": policy_pusht,
    "policy_latency": policy_latency,
    "serve_load": serve_load,
    "vlm_pipeline": vlm_pipeline,
    "vlm_speed": vlm_speed,
}
"""Sections that are left out until they are measured."""


if __name__ == "__main__":
    main()
