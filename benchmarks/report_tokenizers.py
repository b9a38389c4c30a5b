"""The sections of the results page on data and tokenizers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from benchmarks.markdown import paragraph, recipes, said, section, table
from oatkit.presets import tokenizer_preset

DATASETS = {
    "metaworld": "MetaWorld, scripted experts on the paper's four tasks, 50 episodes each",
    "pusht": "PushT, human demonstrations",
    "cr5": "Dobot CR5, a real arm guided by hand",
    "robosuite": "robosuite, a Sawyer arm teleoperated in two episodes, of which one is held out",
    "panda": "robosuite, a Panda arm teleoperated in five tasks, an episode each; one is held out",
}
BUDGETS = (1, 2, 4, 8, 16)


def data_memory(record: dict[str, Any]) -> str:
    runs = {k: v for k, v in record["results"].items() if isinstance(v, dict)}
    growth = max(v for v in record["results"].values() if isinstance(v, float))
    settings = record["settings"]
    return section(
        "Memory while opening and sampling a dataset",
        paragraph(
            "The table shows the anonymous resident memory (RssAnon, MB) of a process that imports "
            "torch, opens a LeRobot v3.0 dataset, computes its statistics and samples "
            f"{settings['batches']} batches of {settings['batch_size']} chunks.",
            'A "cold" run decodes the dataset into an empty cache; a "warm" run finds it there.',
        ),
        table(
            ("dataset", "after import", "while sampling", "peak"),
            (
                (name, str(run["start_mb"]), str(run["sampling_mb"]), str(run["peak_mb"]))
                for name, run in runs.items()
            ),
        ),
        paragraph(
            "From 100 thousand to a million frames the memory grows by at most "
            f"{100 * growth:.1f} %; the target is 10 %."
        ),
        script="data_memory",
    )


def data_sampling(record: dict[str, Any]) -> str:
    result, chunk = record["results"], record["settings"]["chunk"]
    return section(
        "Sampling random batches of chunks",
        paragraph(
            f"Batches of {record['settings']['batch_size']} chunks of {chunk[0]} x {chunk[1]} "
            "actions with the state are sampled on one core:",
            f"{result['chunks_per_s']:,} chunks a second (median of 7 runs, "
            f"{result['lowest']:,} to {result['highest']:,}).",
            "The target is 100,000.",
        ),
        script="data_sampling",
    )


def tokenizer_rate_distortion(record: dict[str, Any]) -> str:
    measured = [row for rows in record["results"].values() for row in tokenizer_rows(rows).values()]
    trained = sorted({row["steps"] for row in measured} - {0})
    parts = [
        paragraph(
            "Errors are mean squared errors x 1000 in normalized units, in which every dimension "
            "is in [-1, 1] (MetaWorld's raw units are the same).",
            f"Chunks have {said(measured, 'horizon')} actions, and a share of "
            f"{said(measured, 'held_out')} of the episodes is held out.",
            f"Trained kinds have the sizes of the preset `{said(measured, 'preset')}`; they were "
            f"trained for {' or '.join(map(str, trained))} steps, as the table says, where the "
            f"preset now has {_usual_steps(measured)}.",
            '"Gaussian" is the error that an ideal linear code of a Gaussian source of the same '
            "covariance leaves at the same bits; the covariance is that of the held-out chunks, "
            "which no code can know beforehand.",
            '"Gaussian, fitted" takes mean, directions and the bits of each from the training '
            "chunks instead, as a fitted code has to.",
            "Bits are those of the vocabulary, and the entropy of the ids that the held-out "
            "chunks have in each slot: with few chunks it is bounded by their number.",
            "`fast` is fitted on the same data, whereas the paper uses the published universal "
            "tokenizer.",
            "Other rows were trained at the same time, so only the order of magnitude of the "
            "seconds counts.",
        )
    ]
    for data, rows in record["results"].items():
        parts += [f"### {DATASETS[data]}", _rate_distortion_table(rows), *_bits_table(rows)]
        if "splits" in rows:
            parts += [
                "A tail of tables (`klt`) after the first tokens of the trained `oat`:",
                table(
                    ("learned tokens", *map(str, BUDGETS)),
                    ((count, *_thousandths(errors)) for count, errors in rows["splits"].items()),
                ),
            ]
    return section(
        "Rate and distortion on held-out episodes", *parts, script="tokenizer_rate_distortion"
    )


def _usual_steps(rows: Iterable[dict[str, Any]]) -> str:
    """Training steps of the rows' presets as they are today."""
    names = dict.fromkeys(row["settings"]["preset"] for row in rows)
    return " or ".join(str(tokenizer_preset(name).train.steps) for name in names)


def tokenizer_rows(rows: dict[str, Any]) -> dict[str, Any]:
    """The rows of a dataset that are tokenizers."""
    return {name: row for name, row in rows.items() if name != "splits"}


def _rate_distortion_table(rows: dict[str, Any]) -> str:
    kinds = tokenizer_rows(rows)
    reference = next(row for row in kinds.values() if len(row["budgets"]) == len(BUDGETS))
    gaussian = _thousandths(b["gaussian_mse_normalized"] for b in reference["budgets"])
    lines = [("Gaussian", "", "", *gaussian, "")]
    fitted = [b.get("fitted_gaussian_mse_normalized") for b in reference["budgets"]]
    if None not in fitted:
        lines.append(("Gaussian, fitted", "", "", *_thousandths(fitted), ""))
    for name, row in kinds.items():
        found = {b["budget"]: b["mse_normalized"] for b in row["budgets"]}
        cells, other = [""] * len(BUDGETS), ""
        if len(found) > 1:
            cells = _thousandths(found.get(budget) for budget in BUDGETS)
        else:
            end = row["budgets"][-1]
            other = f"{1e3 * end['mse_normalized']:.3g} at {end['tokens']:.3g}"
        steps = str(row["steps"] or "")
        lines.append((f"`{name}`", steps, f"{row['seconds']:.0f}", *cells, other))
    return table(("kind", "steps", "seconds", *map(str, BUDGETS), "other budgets"), lines)


def _bits_table(rows: dict[str, Any]) -> list[str]:
    """Bits of the vocabulary, and the entropy of the kinds of which it was measured."""
    lines: dict[str, list[str]] = {}
    for name, row in rows.items():
        budgets = [] if name == "splits" else row["budgets"]
        if len(budgets) == len(BUDGETS) and "entropy_bits" in budgets[0]:
            lines.setdefault("vocabulary", [f"{b['bits']:.1f}" for b in budgets])
            lines[f"entropy of `{name}`"] = [f"{b['entropy_bits']:.1f}" for b in budgets]
    headings = ("bits", *map(str, BUDGETS))
    return [table(headings, ((name, *cells) for name, cells in lines.items()))] if lines else []


def klt_variants(record: dict[str, Any]) -> str:
    """Ways to fit and to encode `klt`, by dataset."""
    parts = []
    for data, rows in record["results"].items():
        shown = (
            (name, f"{row['processor_s']:.0f}", *_thousandths(row["mse"]), _runs(row["cells"]))
            for name, row in rows.items()
        )
        headings = ("way", "seconds", *map(str, BUDGETS), "cells of the tokens")
        parts += [f"{DATASETS[data]}:", table(headings, shown), *_gaussian_ratios(rows)]
    return section(
        "Ways to fit and to encode `klt`",
        paragraph(
            "Error x 1000 in normalized units on held-out episodes at each budget, as in the "
            "section on rate and distortion; the first row is `klt` as it is.",
            "Seconds are of the processor, of fitting.",
            "The last column says what the tokens chose to be, one after the other; a number is "
            "that of the directions of vector cells.",
            "Rows of a table that no chunk uses are given, where a row says so, to the chunks that "
            "are left most of; vector cells always do that.",
            "Tables that are fitted again together have each row moved to the mean of what all "
            "other tokens leave of its chunks, the row itself counting as 4 more, and the budgets "
            "by the inverse of their errors.",
            "Gaussian chunks are drawn, as many as the data have, with the mean and the covariance "
            "of its training chunks: what `klt` misses there of the ideal code it misses because "
            "its codes are short, not because the data are no Gaussian.",
        ),
        *parts,
        script="klt_variants",
    )


def _gaussian_ratios(rows: dict[str, Any]) -> list[str]:
    """Errors as multiples of what an ideal code of a Gaussian source leaves."""
    lines = [
        (name, *(f"{a / b:.2f}" for a, b in zip(row["mse"], row["gaussian"], strict=True)))
        for name, row in rows.items()
        if "gaussian" in row
    ]
    if not lines:
        return []
    words = "As multiples of what an ideal code of a Gaussian source of that covariance leaves:"
    return [words, table(("way", *map(str, BUDGETS)), lines)]


def _runs(names: list[str | int]) -> str:
    """Names, with how often each comes in a row."""
    counted = [(name, len(list(same))) for name, same in groupby(names)]
    return ", ".join(str(name) if n == 1 else f"{n} x {name}" for name, n in counted)


def token_predictability(record: dict[str, Any]) -> str:
    measured = record["results"].values()
    rows = [
        (
            f"`{name}`",
            *(f"{row['accuracy'][slot - 1]:.0%}" for slot in BUDGETS),
            *_thousandths(row["mse"][str(budget)] for budget in BUDGETS),
        )
        for name, row in record["results"].items()
    ]
    slots = (f"slot {number}" for number in BUDGETS)
    return section(
        "Can a policy predict the tokens?",
        paragraph(
            "The light policy is trained from MetaWorld's state for "
            f"{record['settings']['steps']} steps on each tokenizer and measured on held-out "
            "episodes.",
            "Left: how often the likeliest id of a slot is the true one, given the true ids before "
            "it.",
            "Right: mean squared error x 1000 of the chunks that the policy samples itself, by "
            "budget.",
            *([recipes(record["results"])] if all("history" in row for row in measured) else []),
        ),
        table(("tokenizer", *slots, *(f"error at {budget}" for budget in BUDGETS)), rows),
        script="token_predictability",
    )


def oat_convergence(record: dict[str, Any]) -> str:
    settings = record["settings"]
    return section(
        "What makes `oat` converge faster",
        paragraph(
            "Each row changes one thing.",
            f"Training takes {settings['steps']} steps of batch {settings['batch_size']} in size "
            "`small` on MetaWorld; the table shows the error x 1000 on held-out episodes at each "
            "budget.",
            "The last row is not trained at all.",
        ),
        table(
            ("change", *map(str, settings["budgets"])),
            ((name, *_thousandths(row["mse"])) for name, row in record["results"].items()),
        ),
        script="oat_convergence",
    )


def oat_curves(record: dict[str, Any]) -> str:
    parts = []
    for data, rows in record["results"].items():
        shown = (
            (
                f"{row['kind']}, {name}" if row["steps"] else name,
                f"{row['parameters'] / 1000:,.0f}" if row["parameters"] else "",
                f"{row['seconds'] / 60:.1f}",
                *(
                    f"{held_out}, {train}"
                    for held_out, train in zip(
                        _thousandths(row["held_out"]), _thousandths(row["train"]), strict=True
                    )
                ),
            )
            for name, row in rows.items()
        )
        headings = ("tokenizer", "thousand parameters", "minutes", *map(str, BUDGETS))
        parts += [f"{DATASETS[data]}:", table(headings, shown), *_what_oat_lacks(rows)]
    return section(
        "Steps, size or episodes: what `oat` lacks",
        paragraph(
            "Error x 1000 in normalized units at each budget, of held-out episodes, then of those "
            "that were trained on. Every run is a finished one: its learning rate falls to zero "
            "within its steps. Where training errors fall and held-out ones do not, episodes are "
            "missing; where both fall, steps are. Minutes are of one thread, beside other work.",
            '"corrected" is `klt --correct`, a small network on top of its tables.',
        ),
        *parts,
        script="oat_curves",
    )


def _what_oat_lacks(rows: dict[str, Any]) -> list[str]:
    """How far `oat` is from `klt`, and what of it is steps, size and episodes; rows that are there.

    The ends of a range are the budgets at which something is least and most.
    """
    usual = rows.get("small, 8000 steps")
    if usual is None or "klt" not in rows:
        return []
    times = (a / b for a, b in zip(usual["held_out"], rows["klt"]["held_out"], strict=True))
    by_heart = [1 - a / b for a, b in zip(usual["train"], usual["held_out"], strict=True)]
    sentences = [
        f"After 8,000 steps `oat` leaves {', '.join(f'{t:.2g}' for t in times)} times what `klt` "
        f"leaves of held-out episodes. Of its error {_range(by_heart)} is what it knows of its "
        "training episodes by heart."
    ]
    changes = {
        "Four times the steps (2,000 to 8,000)": ("small, 2000 steps", "small, 8000 steps"),
        "Three times as many again": ("small, 8000 steps", "small, 24000 steps"),
        "Eight times the parameters (2,000 steps)": ("small, 2000 steps", "large, 2000 steps"),
        "Eight times the parameters (8,000 steps)": ("small, 8000 steps", "large, 8000 steps"),
        "A dropout of 0.1": ("small, 8000 steps", "small, dropout 0.1, 8000 steps"),
        "Powers of two": ("small, 8000 steps", "small, powers of two, 8000 steps"),
    }
    for what, (before, after) in changes.items():
        if before in rows and after in rows:
            pairs = zip(rows[after]["held_out"], rows[before]["held_out"], strict=True)
            sentences.append(f"{what} changed it by {_range([a / b - 1 for a, b in pairs], '+')}.")
    return [paragraph(*sentences)]


def _range(shares: list[float], sign: str = "") -> str:
    """Least and most of some shares, in percent."""
    ends = dict.fromkeys(f"{100 * share:{sign}.0f}" for share in (min(shares), max(shares)))
    return f"{' to '.join(ends)} %"


def klt_speed(record: dict[str, Any]) -> str:
    found, settings = record["results"], record["settings"]
    fit, encode = found["fit"], found["encode"]
    peaks = ((f"{int(count):,}", f"{peak:,.0f}") for count, peak in found["peak_mb"].items())
    return section(
        "Time, size and memory of `klt`",
        paragraph(
            f"{settings['chunks']:,} smooth chunks of {' x '.join(map(str, settings['shape']))}, "
            f"{settings['threads']} threads.",
            f"Fitting takes {fit['wall_s']:.0f} seconds, {fit['processor_s']:.0f} of the processor "
            "(target: 60 on two cores).",
            f"Encoding does {encode['chunks_per_s']:,} chunks a second (target 5,000).",
            f"The artifact has {found['artifact_mb']} MB (target 10) and opens in "
            f"{found['open_ms']} ms (target 100).",
            "Encoding and opening are the fastest of five times.",
        ),
        *_widest(found, settings),
        *_use_and_paths(found, settings),
        "Largest resident memory of fitting two tokens on chunks that come in blocks:",
        table(("chunks", "MB"), peaks),
        script="klt_speed",
    )


def _widest(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Size and opening of the artifact of the most dimensions, where they were measured."""
    if "widest" not in found:
        return []
    wide = found["widest"]
    return [
        f"Of {settings['shape'][0]} x {wide['action_dim']} it has {wide['artifact_mb']} MB and "
        f"opens in {wide['open_ms']} ms."
    ]


def _use_and_paths(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """The use of the vocabulary and the speed with most paths, where they were measured."""
    if "used" not in found:
        return []
    return [
        paragraph(
            f"With `--paths 16` it does {found['encode_most_paths']['chunks_per_s']:,}.",
            f"Of the vocabulary, {settings['encoded']:,} chunks that were not fitted on use "
            f"{min(found['used']):.0%} to {max(found['used']):.0%} in a slot; as many ids drawn at "
            f"random would use {found['used_at_random']:.0%}.",
        )
    ]


def tokenizer_speed(record: dict[str, Any]) -> str:
    jobs = ("train", "encode", "decode")
    rows = [
        (
            f"`{name}`",
            f"{r['parameters'] / 1e6:.1f}M",
            str(r["batch_size"]),
            *(f"{r[f'{job}_chunks_per_s']:,.0f}" for job in jobs),
            f"{r['matmul_gflops']:.0f}",
            *(f"{r[f'{job}_share']:.2f}" for job in jobs),
            f"{r['encode_one_ms']:.1f}",
            f"{r['decode_one_ms']:.1f}",
        )
        for name, r in record["results"].items()
    ]
    headings = (
        *("kind", "parameters", "batch", "train/s", "encode/s", "decode/s", "matmul"),
        *("train share", "encode share", "decode share", "encode one, ms", "decode one, ms"),
    )
    return section(
        "Speed of the learned tokenizers at the paper's size",
        paragraph(
            f"Chunks of {' x '.join(map(str, record['settings']['chunk']))}, width 256, "
            f"{record['settings']['threads']} threads.",
            "Speeds are in chunks a second.",
            'A share compares the computed FLOP/s with "matmul", the best 2048 x 2048 product in '
            "float32 of the same process (GFLOP/s); the target is a half.",
            "The last two columns are the milliseconds for a single chunk.",
        ),
        table(headings, rows),
        paragraph(
            "The last rows have the width and depth of the first public OAT code, which is known "
            "to train 74, encode 1178 and decode 552 chunks a second on 2 cores of 240 GFLOP/s, "
            "and to take 4.1 ms to encode and 8.2 ms to decode a single chunk."
        ),
        script="tokenizer_speed",
    )


def fast_speed(record: dict[str, Any]) -> str:
    result = record["results"]
    return section(
        "FAST in batches",
        paragraph(
            f"In a batch, {result['encode_batch_chunks_per_s']:,} chunks a second are encoded, "
            f"against {result['encode_loop_chunks_per_s']:,} one by one;",
            f"{result['decode_batch_chunks_per_s']:,} are decoded, against "
            f"{result['decode_loop_chunks_per_s']:,} ({result['mean_tokens']} tokens a chunk).",
        ),
        script="fast_speed",
    )


def decodability(record: dict[str, Any]) -> str:
    """Drawn sequences that decode, by kind."""
    lines = [
        (
            *(f"`{kind}`", str(row["vocabulary"]), _ends(row["shortest"], row["longest"])),
            f"{row['decoded']} of {row['tried']}",
            row.get("ordered", {}).get("evidence", ""),
        )
        for kind, row in record["results"].items()
    ]
    return section(
        "Sequences that decode",
        paragraph(
            "Ids are drawn uniformly, as many as an encoding of a chunk of "
            f"{record['settings']['horizon']} actions of MetaWorld has; a sequence decodes if it "
            "gives finite actions without being mended (`fast` is strict).",
            f"Tokenizers have the preset `{record['settings']['preset']}` and, where they learn, "
            f"{record['settings']['steps']} steps: whether ids decode does not depend on training.",
            "Prefixes of `fast` are decoded at doubling lengths, missing coefficients padded; "
            "errors of those of `oat` and `oat-pow2`, which depend on training, are above.",
        ),
        table(("tokenizer", "vocabulary", "ids", "decoded", "prefixes"), lines),
        script="decodability",
    )


def _ends(shortest: int, longest: int) -> str:
    return str(shortest) if shortest == longest else f"{shortest} to {longest}"


def tokenizer_sweep(record: dict[str, Any]) -> str:
    """Levels and nesting by budget; horizons by tokens, each with all of its tokens."""
    rows = record["results"]
    horizons = sorted({row["horizon"] for row in rows if row["ablation"] == "horizons"})
    with_all_tokens = {
        (row["horizon"], row["tokens"]): row["mse_normalized"][str(row["tokens"])]
        for row in rows
        if row["ablation"] == "horizons"
    }
    counts = sorted({tokens for _, tokens in with_all_tokens})
    return section(
        "The paper's ablations of the tokenizer",
        paragraph(
            f"`oat-pow2` is trained on MetaWorld for {record['settings']['steps']} steps in each "
            "row; the errors are x 1000 in normalized units on held-out episodes.",
            "So short a training shows which settings are better, not how good they can become.",
        ),
        table(
            ("FSQ levels", "vocabulary", "nested", *map(str, BUDGETS)),
            (
                (
                    str(list(row["levels"])),
                    str(row["vocabulary"]),
                    "yes" if row["nested"] else "no",
                    *_thousandths(row["mse_normalized"].get(str(k)) for k in BUDGETS),
                )
                for row in rows
                if row["ablation"] != "horizons"
            ),
        ),
        "With all tokens of a chunk, by its horizon:",
        table(
            ("tokens", *(f"{horizon} actions" for horizon in horizons)),
            (
                (str(k), *_thousandths(with_all_tokens.get((h, k)) for h in horizons))
                for k in counts
            ),
        ),
        script="tokenizer_sweep",
    )


def _thousandths(values: Iterable[float | None]) -> list[str]:
    """Numbers x 1000; empty where there is none."""
    return ["" if value is None else f"{1e3 * value:.3g}" for value in values]
