"""The drawings of the docs and the README's picture, as SVG; `benchmarks.report` writes them.

Measured curves come from `benchmarks/results/`, masks and schedules from the library itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.architecture_drawing import architecture
from benchmarks.control_drawing import success_and_time
from benchmarks.record import read_results
from benchmarks.svg import cell, dot, line, svg, text
from oatkit.policies.generation.packing import pack
from oatkit.tokenizers.oat import register_mask
from oatkit.types import Schedule

TOKENS = 8
"""Number of tokens in the drawn schedules and masks."""
NUM_DIMENSIONS = 3
"""Number of dimensions of the drawn chunk: those that move most."""


def prefix() -> str:
    """A real chunk decoded from its first 1, 2, 4, ... tokens."""
    found = read_results("prefix_picture")
    truth, budgets = found["truth"], list(found["decoded"])
    dims = sorted(_liveliest(truth))
    wide, gap, top = 158, 12, 34
    count = len(found["ids"])
    parts = []
    for place, budget in enumerate(budgets):
        left = 10 + place * (wide + gap)
        kept = int(budget)
        parts.append(text(left, 18, f"{kept} token{'s' * (kept > 1)}", style="strong"))
        for row, dim in enumerate(dims):
            box = (left, top + 58 * row, wide, 46)
            curves = ((found["decoded"][budget], f"curve {found['kind']}"), (truth, "line"))
            parts += [line(_placed(steps, truth, dim, box), style) for steps, style in curves]
        size = (wide - 2) / count - 1.5
        parts += [
            cell(left + i * (size + 1.5), 212, size, found["kind"] if i < kept else "empty")
            for i in range(count)
        ]
        words = f"error {found['mse'][budget]:.3f}"
        parts.append(text(left, 240, words, style="soft small"))
    words = (
        "One chunk of robot actions (thin) and what its first 1, 2, 4, ... tokens decode to "
        "(colored): every prefix is a whole chunk that a robot can execute."
    )
    return svg(860, 250, words, parts)


def _liveliest(chunk: list[list[float]]) -> list[int]:
    """The dimensions with the largest range."""
    spans = [max(column) - min(column) for column in zip(*chunk, strict=True)]
    return sorted(range(len(spans)), key=lambda dim: -spans[dim])[:NUM_DIMENSIONS]


def _placed(
    chunk: list[list[float]],
    truth: list[list[float]],
    dim: int,
    box: tuple[float, float, float, float],
) -> list[tuple[float, float]]:
    """A dimension of a chunk as points of a box that is scaled to the truth."""
    left, top, width, height = box
    true = [row[dim] for row in truth]
    low, span = min(true), max(max(true) - min(true), 1e-9)
    return [
        (
            left + width * step / (len(chunk) - 1),
            top + height * min(1.15, max(-0.15, 1 - (row[dim] - low) / span)),
        )
        for step, row in enumerate(chunk)
    ]


def chunk() -> str:
    """Numbers in, a few ids out, numbers again."""
    found = read_results("prefix_picture")
    truth, ids, names = found["truth"], found["ids"], found["dimensions"]
    parts = [text(10, 20, f"chunk: {len(truth)} steps x {len(names)} numbers", style="strong")]
    for row, name in enumerate(names):
        parts.append(text(10, 52 + 24 * row, name, style="soft small"))
        column = [step[row] for step in truth]
        low, span = min(column), max(max(column) - min(column), 1e-9)
        for step, value in enumerate(column):
            shade = 0.12 + 0.88 * (value - low) / span
            x, y = 60 + 9 * step, 38 + 24 * row
            parts.append(
                f'<rect x="{x}" y="{y}" width="8" height="20" class="seen" opacity="{shade:.2f}"/>'
            )
    parts.append(text(60, 150, "time →", style="soft small"))
    parts.append(text(372, 84, "encode →", style="soft"))
    parts.append(text(372, 104, "← decode", style="soft"))
    parts.append(text(460, 20, f"{len(ids)} tokens, the most telling first", style="strong"))
    for place, number in enumerate(ids):
        x, y = 460 + 48 * (place % 8), 50 + 42 * (place // 8)
        parts.append(
            f'<rect x="{x}" y="{y}" width="44" height="30" rx="4" class="oat" '
            f'opacity="{1 - 0.03 * place:.3f}"/>'
        )
        parts.append(text(x + 22, y + 20, str(number), style="on small", anchor="middle"))
    return svg(860, 160, "A chunk of actions becomes a short row of ids, and back.", parts)


def budget() -> str:
    """Held-out error against the number of tokens kept."""
    rows = read_results("tokenizer_rate_distortion")["metaworld"]
    shown = {"oat": rows["oat"], "oat-pow2": rows["oat-pow2"]}
    reference = [(b["budget"], b["gaussian_mse_normalized"]) for b in rows["oat"]["budgets"]]
    curves = {
        kind: [(b["budget"], b["mse_normalized"]) for b in row["budgets"]]
        for kind, row in shown.items()
    }
    errors = [error for curve in (*curves.values(), reference) for _, error in curve]
    low, high = math.log(min(errors)) - 0.2, math.log(max(errors)) + 0.2
    last = math.log2(max(k for k, _ in reference))

    def at(point: tuple[int, float]) -> tuple[float, float]:
        k, error = point
        return 80 + 560 * math.log2(k) / last, 30 + 200 * (high - math.log(error)) / (high - low)

    parts = [text(10, 18, "held-out error (log)", style="soft small")]
    for k, _ in reference:
        x = at((k, errors[0]))[0]
        parts.append(line([(x, 30), (x, 230)], "grid"))
        parts.append(text(x, 248, str(k), style="small", anchor="middle"))
    words = "budget: leading tokens kept"
    parts.append(text(360, 268, words, style="soft small", anchor="middle"))
    parts.append(line([at(point) for point in reference], "dash"))
    parts.append(text(656, at(reference[-1])[1] + 4, "Gaussian reference", style="soft small"))
    for kind, curve in curves.items():
        parts.append(line([at(point) for point in curve], f"curve {kind}"))
        mark = _square if kind == "oat-pow2" else dot
        parts += [mark(*at(point), kind) for point in curve]
        shift = -4 if kind == "oat-pow2" else 12
        parts.append(text(656, at(curve[-1])[1] + shift, kind, style="small strong"))
    return svg(860, 276, "The error falls with every doubling of the budget.", parts)


def _square(x: float, y: float, style: str) -> str:
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" class="{style}"/>'


def schedules() -> str:
    """Which tokens each call reads, and which it predicts."""
    kinds = {
        "token-wise": Schedule.tokenwise(TOKENS),
        "powers of two": Schedule.pow2(TOKENS),
        "one shot": Schedule.one_shot(TOKENS),
    }
    parts = []
    for place, (name, schedule) in enumerate(kinds.items()):
        left = 10 + 286 * place
        calls = f"{schedule.calls} call{'s' * (schedule.calls > 1)}"
        parts.append(text(left, 18, f"{name}: {calls}", style="strong"))
        start = 0
        for stage, end in enumerate(schedule.endpoints):
            y = 34 + 28 * stage
            for i in range(end):
                fill, number = ("old", "small") if i < start else ("seen", "on small")
                x = left + 31 * i
                parts.append(cell(x, y, 22, fill))
                parts.append(text(x + 11, y + 15, str(i + 1), style=number, anchor="middle"))
            start = end
    y = 34 + 28 * TOKENS + 16
    for x, style, words in (
        (10, "old", "known when the call begins"),
        (240, "seen", "predicted by this call, all at once"),
    ):
        parts += [cell(x, y, 14, style), text(x + 20, y + 12, words, style="soft small")]
    return svg(860, y + 24, "Three schedules for eight tokens; a row is one call.", parts)


def masks() -> str:
    """Who sees whom: registers of the tokenizers, slots of the policy's packed pass."""
    causal = register_mask(tuple(range(1, TOKENS + 1))).tolist()
    doubling = register_mask(Schedule.pow2(TOKENS).endpoints).tolist()
    packing = pack(Schedule.pow2(TOKENS))
    names = [str(i + 1) for i in range(TOKENS)]
    slots = [
        "M" if is_mask else f"T{source + 1}"
        for is_mask, source in zip(packing.is_mask.tolist(), packing.source.tolist(), strict=True)
    ]
    parts = [
        *_grid(10, "registers of oat", causal, names),
        *_grid(300, "registers of oat-pow2", doubling, names),
        *_grid(590, "the policy, powers of two", packing.mask.tolist(), slots),
        text(10, 282, "filled: the slot of this row sees that of this column", style="soft small"),
    ]
    return svg(860, 292, "Attention masks for eight tokens.", parts)


def _grid(left: float, title: str, mask: list[list[bool]], names: Sequence[str]) -> list[str]:
    parts = [text(left, 18, title, style="strong")]
    for row, seen in enumerate(mask):
        y = 50 + 27 * row
        parts.append(text(left + 18, y + 15, names[row], style="small soft", anchor="end"))
        x = left + 35 + 27 * row
        parts.append(text(x, 42, names[row], style="small soft", anchor="middle"))
        parts += [
            cell(left + 24 + 27 * column, y, 22, "seen" if is_seen else "empty")
            for column, is_seen in enumerate(seen)
        ]
    return parts


DRAWINGS = {
    "prefix": prefix,
    "chunk": chunk,
    "budget": budget,
    "schedules": schedules,
    "masks": masks,
    "architecture": architecture,
    "success_and_time": success_and_time,
}
