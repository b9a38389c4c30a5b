"""The drawing of `docs/architecture.md`: how data flows from a dataset on disk to a robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.svg import svg, text

BOX_HEIGHT = 62


@dataclass(frozen=True)
class Box:
    """A room of the library, or a thing that rooms hand to each other.

    Attributes:
        x: Left edge.
        y: Upper edge.
        width: Width of the box.
        title: Name of the room.
        lines: What happens there.
        style: `room` for code, `thing` for what lies on disk or stands in the lab.
    """

    x: float
    y: float
    width: float
    title: str
    lines: Sequence[str]
    style: str = "room"

    def draw(self) -> list[str]:
        """The parts of the SVG."""
        fill = "old" if self.style == "room" else "empty"
        radius = 6 if self.style == "room" else 18
        middle = self.x + self.width / 2
        parts = [
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{BOX_HEIGHT}" '
            f'rx="{radius}" class="{fill}"/>',
            text(middle, self.y + 20, self.title, style="strong", anchor="middle"),
        ]
        return parts + [
            text(middle, self.y + 37 + 15 * row, line, style="small", anchor="middle")
            for row, line in enumerate(self.lines)
        ]


DATASET = Box(10, 40, 120, "dataset", ("LeRobot, HDF5,", "zarr, npz"), "thing")
DATA = Box(166, 40, 130, "data", ("episodes, chunks,", "statistics"))
TOKENIZERS = Box(332, 40, 140, "tokenizers", ("chunk to tokens", "and back"))
POLICIES = Box(508, 40, 150, "policies", ("observation to tokens", "to chunk"))
ARTIFACT = Box(720, 40, 130, "artifact", ("config, weights,", "tokenizer"), "thing")
TRAIN = Box(
    332, 150, 326, "train", ("one resumable loop for tokenizers and policies,", "called by jobs")
)
STORAGE = Box(720, 150, 130, "storage", ("atomic writes,", "digests, records"))
ENVS = Box(166, 260, 130, "envs", ("MetaWorld, PushT,", "demonstrations"))
EVALUATE = Box(332, 260, 140, "evaluate", ("episodes, success", "with intervals"))
SERVE = Box(508, 260, 150, "serve", ("reads once, batches,", "keeps deadlines"))
ROBOT = Box(720, 260, 130, "robot", ("oatkit-client,", "or ONNX files"), "thing")
MEASURE = Box(
    10,
    150,
    286,
    "measure, lab",
    ("rate, distortion, diagnostics, reports;", "a page to play with tokens"),
)
BOXES = (
    *(DATASET, DATA, TOKENIZERS, POLICIES, ARTIFACT, TRAIN),
    *(STORAGE, ENVS, EVALUATE, SERVE, ROBOT, MEASURE),
)


def across(left: Box, right: Box) -> str:
    """An arrow between two boxes of one row."""
    y = left.y + BOX_HEIGHT / 2
    return arrow(((left.x + left.width, y), (right.x - 2, y)))


def between(above: Box, below: Box, x: float) -> str:
    """A vertical arrow from one box to another in the next row, at `x`."""
    is_down = below.y > above.y
    start, end = (above.y + BOX_HEIGHT, below.y - 2) if is_down else (above.y, below.y + 64)
    return arrow(((x, start), (x, end)))


def bent(source: Box, goals: Sequence[Box]) -> list[str]:
    """Arrows from the left of a box down to several others."""
    x, rail = source.x - 30, 236
    stem = f"{source.x:g},{source.y + 46:g} {x:g},{source.y + 46:g} {x:g},{rail:g}"
    ends = [goal.x + goal.width / 2 for goal in goals]
    return [
        f'<polyline points="{stem} {min(ends):g},{rail:g}" class="line"/>',
        *(arrow(((end, rail), (end, goal.y - 2))) for end, goal in zip(ends, goals, strict=True)),
    ]


def arrow(points: Sequence[tuple[float, float]]) -> str:
    """A line through some points with a head at its end."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{path}" class="line" marker-end="url(#head)"/>'


def architecture() -> str:
    """Rooms and the way of data through them."""
    parts = [
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" class="seen"/></marker></defs>',
        text(10, 22, "learn: from a dataset to an artifact", style="soft"),
        text(10, 345, "act: the artifact in a simulator, or on a robot", style="soft"),
    ]
    for box in BOXES:
        parts += box.draw()
    parts += [
        across(DATASET, DATA),
        across(DATA, TOKENIZERS),
        across(TOKENIZERS, POLICIES),
        across(POLICIES, ARTIFACT),
        between(TRAIN, TOKENIZERS, 402),
        between(TRAIN, POLICIES, 583),
        between(STORAGE, ARTIFACT, 785),
        between(DATA, MEASURE, 231),
        across(ENVS, EVALUATE),
        across(SERVE, ROBOT),
        *bent(ARTIFACT, (EVALUATE, SERVE)),
    ]
    words = "How data flows from a dataset on disk, through the rooms of oatkit, to a robot."
    return svg(860, 355, words, parts)
