"""The sections of the results page on vision-language policies."""

from __future__ import annotations

from typing import Any

from benchmarks.report_policies import difference, rate


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
            f"| {name} | {rate(row['all'])} | | | | | | | |"
            for name, row in result["baselines"].items()
        ),
    ]
    for name, row in result["policies"].items():
        loops = (row["closed loop"].get(way) for way in ways)
        right = (row["token accuracy"].get(way) for way in ways[:3])
        cells = [rate(loop["all"]) if loop else "" for loop in loops]
        cells.append(difference(row["against the mean demonstration"]))
        cells += [f"{100 * share:.1f}" if share is not None else "" for share in right]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += _grouped(result["policies"])
    taught = {name: row for name, row in result["policies"].items() if "against pure flow" in row}
    if taught:
        lines += [
            "\nWhat tokens teach the same flow expert: the difference to the expert without tokens "
            "(`vlm-flow`), on the same episodes.\n",
            "| policy | success | difference |",
            "|---|---|---|",
            *(
                f"| `{name}` | {rate(row['closed loop']['as it is']['all'])} "
                f"| {difference(row['against pure flow'])} |"
                for name, row in taught.items()
            ),
        ]
    if result["overfitting"]:
        lines += [
            f"\n16 chunks learnt by heart, {settings['overfit_steps']} steps. The error of the "
            "expert's chunk is squared, in normalized units.\n",
            "| policy | tokens right, percent | error | variance of the chunks |",
            "|---|---|---|---|",
        ]
    for name, row in result["overfitting"].items():
        chunk = [row.get(what) for what in ("mse, normalized", "variance, normalized")]
        shown = ["" if value is None else f"{value:.2g}" for value in chunk]
        lines.append(f"| `{name}` | {100 * row['token accuracy']:.1f} | {' | '.join(shown)} |")
    return "\n".join([*lines, "", "(`benchmarks/vlm_pipeline.py`)\n"])


def _grouped(policies: dict[str, Any]) -> list[str]:
    """Powers of two on tokens that are not ordered in groups, and on those that are."""
    rows = []
    for name, row in policies.items():
        if name.startswith("vlm-ar"):
            trained = "one by one" if name.startswith("vlm-ar/oat/") else "powers of two"
            loops = row["closed loop"]
            rows.append(f"| `{name}` | {trained} | {trained} | {rate(loops['as it is']['all'])} |")
            if other := loops.get("powers of two at inference"):
                rows.append(f"| `{name}` | {trained} | powers of two | {rate(other['all'])} |")
    return [
        "\nTokens generated one by one and in powers of two; those of `oat` are ordered one by "
        "one, those of `oat-pow2` in groups.\n",
        "| policy | trained | generated | success |",
        "|---|---|---|---|",
        *rows,
    ]


def vlm_rows(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    lines = [
        "## Rows of new action tokens\n",
        "How widely the rows of action tokens should begin around the mean of the known ones, in "
        "standard",
        f"deviations of those: the loss of `vlm-ar` (nats a token) after {settings['steps']} steps "
        f"of batch {settings['batch_size']} and on",
        "held-out chunks. The backbones have random weights, so their known rows mean nothing yet; "
        "oatkit uses 1.\n",
        "| backbone | spread | first step | last steps | held out |",
        "|---|---|---|---|---|",
        *(
            f"| {family} | {spread} | {row['first']:.2f} | {row['last']:.2f} "
            f"| {row['held out']:.2f} |"
            for family, rows in result.items()
            for spread, row in rows.items()
        ),
    ]
    return "\n".join([*lines, "", "(`benchmarks/vlm_rows.py`)\n"])


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
    ways = next(iter(result["predicted"].values()))["calls"]
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
