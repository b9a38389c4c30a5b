"""Recordings for the Rerun viewer. This is the only file that imports rerun.

    <episode>/task             text
    <episode>/camera/<name>    images
    <episode>/state, action    curves, one for each dimension
    <episode>/chunk/<name>     a chunk as curves over its steps, at the step where it begins
    <episode>/tokens           the ids of that chunk

Each episode is a branch of its own, on the timeline `step`, which begins at 0 in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oatkit.errors import MissingExtraError
from oatkit.storage.atomic_write import atomic_write

try:
    import rerun
except ImportError as error:
    raise MissingExtraError("rerun") from error

STEP = "step"
JPEG_QUALITY = 90


@contextmanager
def rerun_recording(path: Path | None) -> Iterator[RerunRecording]:
    """A recording that is written to a file, or shown by a viewer that is started for it.

    Args:
        path: File to write, which appears when the block ends; None for the viewer.
    """
    with ExitStack() as stack:
        stream = rerun.RecordingStream("oatkit")
        if path is None:
            stream.spawn()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            stream.save(stack.enter_context(atomic_write(path)))
        stack.callback(stream.disconnect)  # before the file gets its name
        yield RerunRecording(stream)


class RerunRecording:
    """Episodes as the Rerun viewer shows them; made by `rerun_recording`.

    Args:
        stream: Where everything goes.
    """

    def __init__(self, stream: rerun.RecordingStream) -> None:
        self._stream = stream

    def add_text(self, episode: str, name: str, text: str, *, step: int | None = None) -> None:
        """A text of a step; of the whole episode by default."""
        self._log(episode, [name], rerun.TextDocument(text), step)

    def add_image(
        self, episode: str, camera: str, image_HWC: NDArray[np.uint8], *, step: int
    ) -> None:
        """An image of a camera, (H, W, 3)."""
        encoded = rerun.Image(image_HWC).compress(jpeg_quality=JPEG_QUALITY)
        self._log(episode, ["camera", camera], encoded, step)

    def add_curves(
        self,
        episode: str,
        name: str,
        values_NA: NDArray[np.float32],
        dimensions: Sequence[str],
        *,
        steps: Sequence[int] | None = None,
    ) -> None:
        """A curve for each dimension.

        Args:
            episode: Name of the episode.
            name: What is drawn.
            values_NA: Values of N steps.
            dimensions: Name of each dimension.
            steps: The N steps; 0, 1, 2, ... by default.
        """
        place = rerun.new_entity_path([episode, name])
        self._stream.log(place, rerun.SeriesLines(names=list(dimensions)), static=True)
        times = np.arange(len(values_NA)) if steps is None else np.asarray(steps)
        self._stream.send_columns(
            place,
            indexes=[rerun.TimeColumn(STEP, sequence=times)],
            columns=rerun.Scalars.columns(scalars=values_NA.astype(np.float64)),
        )

    def add_chunk(
        self,
        episode: str,
        name: str,
        actions_TA: NDArray[np.float32],
        dimensions: Sequence[str],
        *,
        step: int,
    ) -> None:
        """A chunk that begins at a step; its curves go over the steps of the episode."""
        steps_T = step + np.arange(len(actions_TA))
        strips = [np.stack([steps_T, values_T], axis=1) for values_T in actions_TA.T]
        self._log(
            episode, ["chunk", name], rerun.LineStrips2D(strips, labels=list(dimensions)), step
        )

    def _log(
        self, episode: str, place: list[str], what: rerun.AsComponents, step: int | None
    ) -> None:
        if step is not None:
            self._stream.set_time(STEP, sequence=step)
        path = rerun.new_entity_path([episode, *place])
        self._stream.log(path, what, static=step is None)
