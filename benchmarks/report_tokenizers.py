"""The sections of the results page on data and tokenizers."""

from __future__ import annotations

from typing import Any

DATASETS = {
    "metaworld": "MetaWorld, scripted experts on the paper's four tasks, 50 episodes each",
    "pusht": "PushT, human demonstrations",
    "cr5": "Dobot CR5, a real arm guided by hand",
}
BUDGETS = (1, 2, 4, 8, 16)


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


def data_sampling(record: dict[str, Any]) -> str:
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


def tokenizer_rate_distortion(record: dict[str, Any]) -> str:
    lines = [
        "## Rate and distortion on held-out episodes\n",
        "Mean squared error x 1000 in normalized units (every dimension in [-1, 1]; MetaWorld's",
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


def token_predictability(record: dict[str, Any]) -> str:
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


def oat_convergence(record: dict[str, Any]) -> str:
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


def tokenizer_speed(record: dict[str, Any]) -> str:
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


def fast_speed(record: dict[str, Any]) -> str:
    result = record["results"]
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
            "normalized units on",
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
