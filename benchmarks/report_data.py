"""The sections on fitting as data grow, and on real datasets."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import paragraph, section, table

REPRESENTATIONS = ("absolute", "delta", "relative")


def fit_streams(record: dict[str, Any]) -> str:
    """A row for each number of frames and each job."""
    results, settings = record["results"], record["settings"]
    rows = [
        (
            f"{int(frames):,}",
            job,
            f"{took['processor_s']:g}",
            f"{took['wall_s']:g}",
            f"{took['peak_mb'] - took['start_mb']:.0f}",
        )
        for frames, jobs in results.items()
        for job, took in jobs.items()
    ]
    return section(
        "Fitting as the data grow",
        paragraph(
            "Statistics of the actions, and `klt` and `fast` fitted on all chunks of "
            f"{settings['horizon']} actions with {settings['action_dim']} dimensions, each in a "
            "process of its own; `open` decodes the columns, which the others find decoded.",
            "Memory is the peak of anonymous resident memory beyond that of the process before it "
            "opens the dataset.",
            "The clock counts what else ran on the machine.",
        ),
        table(("frames", "what", "processor s", "clock s", "peak MB"), rows),
        script="fit_streams",
    )


def real_data(record: dict[str, Any]) -> str:
    """A row for each dataset."""
    results, settings = record["results"], record["settings"]
    kinds = [k for k in ("fast", "klt") if any(f"{k}, absolute" in r for r in results.values())]
    names = [f"`{kind}`, {words}" for kind in kinds for words in REPRESENTATIONS]
    rows = [
        (
            name,
            found["format"],
            f"{found['episodes']} / {found['frames']:,}",
            f"{found['action_dim']}",
            ", ".join(found["findings"]) or "nothing",
            *(
                _cell(found.get(f"{kind}, {words}"), kind)
                for kind in kinds
                for words in REPRESENTATIONS
            ),
        )
        for name, found in results.items()
    ]
    shown = {
        "fast": f"`fast` shows its mean number of tokens for {settings['horizon']} actions.",
        "klt": f"`klt` has {settings['num_tokens']} tokens for them.",
    }
    worst = max(found["converted_difference"] for found in results.values())
    return section(
        "Real datasets in each representation of actions",
        paragraph(
            "Each was read, checked, converted to LeRobot v3.0 (the actions of the converted one "
            f"differ by {worst:g} at most) and tokenized with its actions as they are, as "
            "differences to the action before, and relative to the state.",
            " ".join(shown[kind] for kind in kinds)
            + " In parentheses stands the error of held-out "
            "chunks in percent of the variance of the actions.",
            "A dash stands where it was refused: the state has other names and another number of "
            "dimensions than the actions, so that nothing can be relative to it, or there is one "
            "episode, so that none can be held out.",
        ),
        table(("data", "format", "episodes / frames", "dimensions", "check found", *names), rows),
        script="real_data",
    )


def _cell(found: dict[str, Any] | None, kind: str) -> str:
    if found is None or "refused" in found:
        return "-"
    tokens = f"{found['tokens']:.1f} " if kind == "fast" else ""
    return f"{tokens}({100 * found['share_left']:.2f})"
