"""The built page: for a server, or with chosen chunks inside."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from oatkit.lab.lab import Lab

EMPTY_ANSWERS = '<script id="chosen" type="application/json">null</script>'
"""The element of the built page that an export fills with answers."""


def live_page() -> str:
    """The page that sends its questions to a server."""
    return (files("oatkit.lab") / "static" / "lab.html").read_text()


def static_page(lab: Lab, places: Sequence[tuple[int, int]], *, has_images: bool = True) -> str:
    """The page with all answers about some chunks inside; it opens from disk.

    Args:
        lab: Lab that answers the questions of the page.
        places: Episode and frame of each chunk.
        has_images: Whether the cameras are shown, where there are some.
    """
    facts = lab.facts()
    if not has_images:
        facts["cameras"] = []
    cameras = [camera["name"] for camera in facts["cameras"]]
    chosen = {
        "facts": facts,
        "episodes": {str(episode): lab.episode(episode) for episode, _ in places},
        "chunks": [_answers(lab, episode, frame, cameras) for episode, frame in places],
    }
    text = json.dumps(chosen, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return live_page().replace(EMPTY_ANSWERS, EMPTY_ANSWERS.replace("null", text))


def choose_places(lab: Lab, count: int, num_episodes: int = 2) -> list[tuple[int, int]]:
    """Episodes and frames of chunks to export.

    They are spread over the episodes that move most: held-out ones where there are some, and one of
    each task.

    Args:
        lab: Lab whose dataset is looked at.
        count: Number of chunks.
        num_episodes: Maximum number of episodes that they come from.
    """
    data, candidates = lab.dataset, lab.held_out() or list(range(len(lab.dataset)))
    std_A = np.maximum(data.action_statistics().std, 1e-12)
    found: dict[str, tuple[float, int]] = {}
    for episode in candidates[:64]:
        actions_TA = data[episode].actions
        moves = float((actions_TA.std(axis=0) / std_A).sum())
        task = data[episode].task
        found[task] = max(found.get(task, (0.0, episode)), (moves, episode))
    liveliest = [episode for _, episode in sorted(found.values(), reverse=True)[:num_episodes]]
    places = []
    for episode in liveliest:
        last = max(int(data.episode_lengths[episode]) - lab.horizon, 0)
        frames = np.linspace(0, last, max(count // len(liveliest), 1)).round().astype(int)
        places += [(episode, frame) for frame in sorted(set(frames.tolist()))]
    return places


def write_page(html: str, folder: Path) -> Path:
    """Write an exported page into a folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(html)
    return path


def _answers(lab: Lab, episode: int, frame: int, cameras: Sequence[str]) -> dict[str, Any]:
    chunk = lab.chunk(episode, frame)
    tokens = zip(lab.tokenizers, chunk["encoded"], strict=True)
    return {
        "episode": episode,
        "frame": frame,
        "chunk": chunk,
        "influence": [lab.influence(name, encoded["ids"]) for name, encoded in tokens],
        "images": {
            name: "data:image/jpeg;base64," + b64encode(lab.image(episode, frame, name)).decode()
            for name in cameras
        },
    }
