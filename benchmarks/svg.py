"""The parts that drawings of the docs are made of, as SVG with one style for light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """<style>
text { font: 13px system-ui, Roboto, Helvetica, Arial, sans-serif; fill: #22252b; }
.soft { fill: #5f6670; } .small { font-size: 11px; } .strong { font-weight: 600; }
.line { fill: none; stroke: #22252b; stroke-width: 1.2; }
.grid { fill: none; stroke: #c9ced6; } .empty { fill: none; stroke: #aeb4bd; }
.mask { fill: #c9ced6; } .seen { fill: #2184c5; } .old { fill: #a9cbe4; }
polyline { fill: none; }
rect.oat { fill: #2184c5; } rect.oat-pow2 { fill: #e2784e; }
polyline.oat { stroke: #2184c5; } polyline.oat-pow2 { stroke: #e2784e; }
circle.oat { fill: #2184c5; } circle.oat-pow2 { fill: #e2784e; } circle.other { fill: #8d939c; }
polyline.other { stroke: #8d939c; } .interval { opacity: 0.4; }
.curve { stroke-width: 2.2; stroke-linejoin: round; }
.dash { fill: none; stroke: #8d939c; stroke-dasharray: 5 4; }
.on { fill: #fff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; } .soft { fill: #a0a8b3; } .line { stroke: #e4e7eb; }
  .grid { stroke: #454b55; } .empty { stroke: #5d646e; } .mask { fill: #565d68; }
  .old { fill: #31566f; } .on { fill: #fff; } }
</style>"""


def svg(width: int, height: int, name: str, parts: Sequence[str]) -> str:
    """A whole drawing."""
    inside = "\n".join((STYLE, *parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(name)}">\n{inside}\n</svg>\n'
    )


def text(x: float, y: float, words: str, *, style: str = "", anchor: str = "start") -> str:
    """Words at a place."""
    place = f'x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def cell(x: float, y: float, size: float, style: str) -> str:
    """A square with round corners."""
    return f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" rx="2" class="{style}"/>'


def line(points: Sequence[tuple[float, float]], style: str) -> str:
    """A line through some points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" class="{style}"/>'


def dot(x: float, y: float, style: str) -> str:
    """A filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="{style}"/>'
