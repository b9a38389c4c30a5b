"""Parts of Markdown pages: paragraphs, tables and sections."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH = 100


def paragraph(*sentences: str) -> str:
    """Sentences as one paragraph of short lines."""
    return textwrap.fill(" ".join(sentences), WIDTH, break_long_words=False, break_on_hyphens=False)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty cells stay empty."""
    lines = [_line(headings), "|" + "---|" * len(headings), *map(_line, rows)]
    return "\n".join(lines)


def said(rows: Iterable[Mapping[str, Any]], name: str) -> str:
    """A setting of rows that carry their own, in words: `16`, or `8 or 16` where they differ."""
    values = dict.fromkeys(str(row["settings"][name]) for row in rows)
    return " or ".join(values)


def recipes(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """How the light policies of rows were trained, in a sentence: presets change."""
    found: dict[str, list[str]] = {}
    for label, row in rows.items():
        words = (
            f"{row['history']} frame{'s' if row['history'] > 1 else ''}, code smoothing "
            f"{row['code_smoothing']:g}, "
        )
        layers = row["offset_layers"]
        words += f"an offset head of {layers} layers" if layers else "no offset head"
        if row["tokenizer_steps"]:
            words += f", tokenizer of {row['tokenizer_steps']} steps"
        found.setdefault(words, []).append(f"`{label}`")
    each = "; ".join(f"{words} ({', '.join(labels)})" for words, labels in found.items())
    return f"How rows were trained, whatever their preset is today: {each}."


def section(title: str, *parts: str, script: str) -> str:
    """A section of the results page, which ends with the script that measured it."""
    shown = [part for part in parts if part]
    return "\n\n".join([f"## {title}", *shown, f"(`benchmarks/{script}.py`)\n"])


def _line(cells: Sequence[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
