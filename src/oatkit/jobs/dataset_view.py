"""A dataset as a recording for the Rerun viewer, with what a tokenizer makes of its chunks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from oatkit.data import Dataset
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.prefix_chunks import prefix_chunks

if TYPE_CHECKING:
    from oatkit.data.rerun_recording import RerunRecording

FRAMES_AT_ONCE = 64


def view_dataset(
    dataset: Dataset,
    out: str | os.PathLike[str] | None = None,
    *,
    tokenizer: ActionTokenizer | None = None,
    stride: int | None = None,
    cameras: Sequence[str] | None = None,
    show_progress: bool = False,
) -> None:
    """Write the episodes of a dataset to a recording: cameras, state, actions, task.

    Args:
        dataset: Episodes to show.
        out: File to write, `*.rrd`; None to start the viewer.
        tokenizer: Tokenizer whose tokens and decoded chunks are shown beside the true chunks.
        stride: Frames between two such chunks; half of the tokenizer's horizon by default.
        cameras: Cameras to show; all by default.
        show_progress: Whether to show a bar.
    """
    from oatkit.data.rerun_recording import rerun_recording

    if stride is not None and stride < 1:
        raise ValueError(f"stride is {stride}, expected 1 or more")
    if tokenizer is not None and tokenizer.action_dim != dataset.action_dim:
        raise ValueError(
            f"the tokenizer is for {tokenizer.action_dim} action dimensions, {dataset.path} has "
            f"{dataset.action_dim}: name its columns with --action-key"
        )
    console = Console(stderr=True, quiet=not show_progress)
    with rerun_recording(None if out is None else Path(out)) as recording:
        view = _View(dataset, recording, tuple(dataset.cameras if cameras is None else cameras))
        for index in track(range(len(dataset)), "episodes", console=console, transient=True):
            view.add_episode(index)
            if tokenizer is not None:
                view.add_chunks(index, tokenizer, stride or max(1, tokenizer.horizon // 2))


class _View:
    """Adds episodes to a recording."""

    def __init__(self, dataset: Dataset, recording: RerunRecording, cameras: Sequence[str]) -> None:
        self._dataset = dataset
        self._recording = recording
        self._cameras = cameras

    def add_episode(self, index: int) -> None:
        """The task, all frames, states and actions of an episode."""
        episode, name, dataset = self._dataset[index], self._name(index), self._dataset
        self._recording.add_text(name, "task", episode.task)
        self._recording.add_curves(name, "action", episode.actions, dataset.action.names)
        if dataset.state is not None and episode.state is not None:
            self._recording.add_curves(name, "state", episode.state, dataset.state.names)
        for camera in self._cameras:
            for start in range(0, len(episode), FRAMES_AT_ONCE):
                frames = range(start, min(len(episode), start + FRAMES_AT_ONCE))
                images = episode.images(camera, frames)
                for frame, image_HWC in zip(frames, images, strict=True):
                    self._recording.add_image(name, camera, image_HWC, step=frame)

    def add_chunks(self, index: int, tokenizer: ActionTokenizer, stride: int) -> None:
        """The true chunks of an episode, their tokens, and what each budget of these decodes to."""
        name, dimensions = self._name(index), self._dataset.action.names
        chunks = self._dataset.subset([index]).chunks(tokenizer.horizon, stride=stride)
        actions_BTA, _ = chunks.actions(range(len(chunks)))
        state_BS = chunks.start_states(range(len(chunks))) if tokenizer.needs_state else None
        for number, ids in enumerate(tokenizer(actions_BTA, state_BS)):
            step = number * stride
            state_S = None if state_BS is None else state_BS[number]
            true_TA = actions_BTA[number]
            self._recording.add_chunk(name, "true", true_TA, dimensions, step=step)
            self._recording.add_text(name, "tokens", " ".join(map(str, ids)), step=step)
            for budget, decoded_TA in prefix_chunks(tokenizer, ids, state_S).items():
                what = f"budget-{budget}"
                self._recording.add_chunk(name, what, decoded_TA, dimensions, step=step)

    def _name(self, index: int) -> str:
        return f"episode-{self._dataset.episode_numbers[index]:04d}"
