"""The sections of the results page on vision-language policies."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import paragraph, said, section, table
from benchmarks.report_policies import difference, rate
from benchmarks.vlm_pipeline import AT_BUDGET


def vlm_pipeline(record: dict[str, Any]) -> str:
    settings, result = record["settings"], record["results"]
    policies = result["policies"]
    rows = policies.values()
    tasks = " and ".join(f"`{task}`" for task in settings["tasks"])
    return section(
        "Vision-language policies from images, text and the arm's state",
        paragraph(
            f"Backbones with random weights are trained on {said(rows, 'demonstrations')} "
            f"demonstrations each of {tasks}, whose scenes look alike: only the text says what to "
            "do, and only the image shows where the door is.",
            f"Training takes {said(rows, 'steps')} steps of batch {said(rows, 'batch_size')} on "
            f"images with {said(rows, 'image_size')} pixels a side, with the same seeds for all.",
            f"Success is in percent of {said(rows, 'episodes')} episodes a task of at most "
            f"{said(rows, 'max_steps')} steps on goals that no demonstration has, with the "
            "likeliest tokens and Wilson's 95 % intervals; then with images of other moments, and "
            "with the instruction of the other task.",
            "The difference is to the mean demonstration of the task, replayed on the same "
            "episodes.",
            "Token accuracy is on held-out demonstrations, in percent, and with images and texts "
            "shuffled.",
        ),
        _pipeline_table(result),
        paragraph(
            "Tokens can be generated one by one or in powers of two. The tokens of `oat` are "
            "ordered one by one, those of `oat-pow2` in groups."
        ),
        _grouping_table(policies),
        *_by_budget(policies),
        *_co_training(policies),
        *_overfitting(result["overfitting"], settings["overfit_steps"]),
        script="vlm_pipeline",
    )


def _pipeline_table(result: dict[str, Any]) -> str:
    ways = ("as it is", "other images", "other text", "its token head")
    rows = [(name, rate(row["all"]), *[""] * 7) for name, row in result["baselines"].items()]
    for name, row in result["policies"].items():
        loops = (row["closed loop"].get(way) for way in ways)
        right = (row["token accuracy"].get(way) for way in ways[:3])
        rows.append(
            (
                f"`{name}`",
                *(rate(loop["all"]) if loop else "" for loop in loops),
                difference(row["against the mean demonstration"]),
                *(f"{100 * share:.1f}" if share is not None else "" for share in right),
            )
        )
    headings = (
        *("policy", "success", "other images", "other text", "token head", "difference"),
        *("tokens right", "other images", "other text"),
    )
    return table(headings, rows)


def _grouping_table(policies: dict[str, Any]) -> str:
    """Powers of two on tokens that are not ordered in groups, and on those that are."""
    rows = []
    for name, row in policies.items():
        if name.startswith("vlm-ar/oat"):
            trained = "one by one" if name.startswith("vlm-ar/oat/") else "powers of two"
            loops = row["closed loop"]
            rows.append((f"`{name}`", trained, trained, rate(loops["as it is"]["all"])))
            if other := loops.get("powers of two at inference"):
                rows.append((f"`{name}`", trained, "powers of two", rate(other["all"])))
    return table(("policy", "trained", "generated", "success"), rows)


def _by_budget(policies: dict[str, Any]) -> list[str]:
    """Success with fewer tokens, of the policies that were measured so."""
    prefix = AT_BUDGET.format("")
    ways = {
        name: {**row["closed loop"], AT_BUDGET.format("all"): row["closed loop"]["as it is"]}
        for name, row in policies.items()
        if any(how.startswith(prefix) for how in row["closed loop"])
    }
    if not ways:
        return []
    budgets = ("1", "2", "4", "all", "auto")
    rows = [
        (f"`{name}`", *(rate(loops[AT_BUDGET.format(budget)]["all"]) for budget in budgets))
        for name, loops in ways.items()
    ]
    return [
        paragraph(
            "With fewer tokens, and with as many as the policy itself finds worth it (`auto`, by a "
            "budget that is calibrated on held-out demonstrations)."
        ),
        table(("policy", *budgets), rows),
    ]


def _co_training(policies: dict[str, Any]) -> list[str]:
    rows = [
        (
            f"`{name}`",
            rate(row["closed loop"]["as it is"]["all"]),
            difference(row["against pure flow"]),
        )
        for name, row in policies.items()
        if "against pure flow" in row
    ]
    if not rows:
        return []
    return [
        paragraph(
            "What tokens teach the same flow expert: the difference is to the expert without "
            "tokens (`vlm-flow`), on the same episodes."
        ),
        table(("policy", "success", "difference"), rows),
    ]


def _overfitting(found: dict[str, Any], steps: int) -> list[str]:
    if not found:
        return []
    rows = []
    for name, row in found.items():
        chunk = [row.get(what) for what in ("mse, normalized", "variance, normalized")]
        shown = ["" if value is None else f"{value:.2g}" for value in chunk]
        rows.append((f"`{name}`", f"{100 * row['token accuracy']:.1f}", *shown))
    return [
        paragraph(
            f"16 chunks are learned by heart in {steps} steps. The error of the expert's chunk is "
            "squared, in normalized units."
        ),
        table(("policy", "tokens right, percent", "error", "variance of the chunks"), rows),
    ]


def vlm_rows(record: dict[str, Any]) -> str:
    settings = record["settings"]
    return section(
        "Rows of new action tokens",
        paragraph(
            "How widely should the embedding rows of new action tokens be spread around the mean "
            "of the known rows?",
            "The spread is in standard deviations of the known rows; the table shows the loss of "
            f"`vlm-ar` (nats a token) over {settings['steps']} steps of batch "
            f"{settings['batch_size']}, and on held-out chunks.",
            "The backbones have random weights, so their known rows mean nothing yet; oatkit uses "
            "1.",
        ),
        table(
            ("backbone", "spread", "first step", "last steps", "held out"),
            (
                (
                    *(family, spread, f"{row['first']:.2f}", f"{row['last']:.2f}"),
                    f"{row['held out']:.2f}",
                )
                for family, rows in record["results"].items()
                for spread, row in rows.items()
            ),
        ),
        script="vlm_rows",
    )


def vlm_padding(record: dict[str, Any]) -> str:
    settings, results = record["settings"], record["results"]
    first = next(iter(results.values()))["seeds"]
    share = 100 * first[0]["share of padding"]
    numbers = [name for name in first[0] if name != "share of padding"]
    return section(
        "Padding in the flow loss",
        paragraph(
            "A chunk that reaches past the end of its episode is filled up with the last action: "
            f"{share:.0f} percent of the steps here.",
            "`vlm-flow` is trained with the flow loss over all steps, or over those of the episode "
            f"alone, for {settings['steps']} steps of batch {settings['batch_size']} from "
            f"{len(first)} seeds.",
            "Losses and squared errors are of held-out chunks, in normalized units: the mean, and "
            "the seeds in brackets. Chunks begin at zero noise.",
        ),
        table(
            ("", *(f"loss over {name}" for name in results)),
            (
                (
                    f"{number}{'' if 'padding' in number else ', steps of the episode'}",
                    *(_with_seeds(result, number) for result in results.values()),
                )
                for number in numbers
            ),
        ),
        script="vlm_padding",
    )


def _with_seeds(result: dict[str, Any], number: str) -> str:
    seeds = ", ".join(f"{row[number]:.3f}" for row in result["seeds"])
    return f"{result['mean'][number]:.3f} ({seeds})"


def vlm_speed(record: dict[str, Any]) -> str:
    result, settings = record["results"], record["settings"]
    families = {name: row for name, row in result.items() if "ms" in row}
    works, images = list(next(iter(families.values()))["ms"]), result["smolvlm_image"]
    rows = {
        "parameters": [f"{row['parameters'] / 1e6:.0f}M" for row in families.values()],
        "context slots": [str(row["context_slots"]) for row in families.values()],
        **{work: [f"{row['ms'][work]:.1f}" for row in families.values()] for work in works},
        "times faster by powers of two": [f"{r['pow2_speedup']:.2f}" for r in families.values()],
        "times faster by the cache": [f"{r['cache_speedup']:.2f}" for r in families.values()],
    }
    return section(
        "Latency of vision-language policies",
        paragraph(
            "Backbones of about 100M parameters run on the CPU with "
            f"{settings['threads']} threads and batch 1; times are medians in milliseconds.",
            f"A chunk has {settings['tokens']} tokens. The times of generation are without the "
            "prefill unless the row says otherwise.",
            "Powers of two shall be 2.5 times faster than token-wise, and token-wise generation "
            "with a cache, its prefill included, 5 times faster than without.",
        ),
        table(("", *families), ((name, *cells) for name, cells in rows.items())),
        paragraph(
            "SmolVLM2's processor enlarges an image to 2048 pixels before it makes it small: "
            f"{images['enlarged first']:.0f} ms for a camera of 480 x 640. Policies leave that "
            f"out: {images['as policies read it']:.0f} ms."
        ),
        *_roofline(result["predicted"]),
        script="vlm_speed",
    )


def flow_speed(record: dict[str, Any]) -> str:
    results, settings = record["results"], record["settings"]
    ways = list(next(iter(results.values()))["ms"])
    return section(
        "Euler steps of a flow expert",
        paragraph(
            f"A chunk takes {settings['euler_steps']} Euler steps after the prefill, which is not "
            "counted; times are medians in milliseconds, batch 1, threads "
            f"{settings['threads']}. The ways take turns. Each step alone is the expert as in "
            "training; prepared once is how policies act; fixed buffers are what CUDA graphs are "
            "captured over, here without graphs. The type is that of the context."
        ),
        table(
            ("", *results),
            (
                ("context slots", *(str(row["context_slots"]) for row in results.values())),
                *((way, *(f"{row['ms'][way]:.0f}" for row in results.values())) for way in ways),
            ),
        ),
        script="flow_speed",
    )


def _roofline(predicted: dict[str, Any]) -> list[str]:
    ways = next(iter(predicted.values()))["calls"]
    rows = []
    for name, row in predicted.items():
        parameters, expert = (row["parameters"][part] / 1e9 for part in ("whole", "expert"))
        cards = {
            key: value
            for key, value in row.items()
            if isinstance(value, dict) and "chunk_ms" in value
        }
        rows += [
            (
                *(name, f"{parameters:.2f}B", f"{parameters + expert:.2f}B", card),
                f"{found['prefill_ms']:.1f}",
                *(f"{found['chunk_ms'][way]:.1f}" for way in ways),
            )
            for card, found in cards.items()
        ]
    headings = (
        *("backbone", "parameters", "with expert", "card", "prefill"),
        *(f"{way}, {calls} calls" for way, calls in ways.items()),
    )
    return [
        paragraph(
            "Backbones of published sizes are predicted in bfloat16 by a roofline: the larger of "
            "the counted FLOPs and the bytes read, each over the rate in the data sheet of the "
            "card. There is one image of 224 x 224; times are in milliseconds and include the "
            "prefill."
        ),
        table(headings, rows),
    ]
