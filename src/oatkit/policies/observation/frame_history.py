"""The last frames of an episode, as many as a policy reads."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Frame = TypeVar("Frame")


class FrameHistory(Generic[Frame]):
    """Keeps the last frames of an episode, and repeats the first one at its start.

        added       a          b          c          d
        frames()    a a a      a a b      a b c      b c d

    Args:
        num_frames: Number of frames that a policy reads, the current one included.
    """

    def __init__(self, num_frames: int) -> None:
        if num_frames < 1:
            raise ValueError(f"a history has {num_frames} frames, expected at least 1")
        self._num_frames = num_frames
        self._frames: deque[Frame] = deque(maxlen=num_frames)

    def add(self, frame: Frame) -> None:
        """Add the current frame; the oldest one goes."""
        self._frames.append(frame)

    def frames(self) -> list[Frame]:
        """Exactly `num_frames` frames, the oldest first."""
        if not self._frames:
            raise ValueError("the history of an episode has no frame yet: add one first")
        missing = self._num_frames - len(self._frames)
        return [self._frames[0]] * missing + list(self._frames)

    def clear(self) -> None:
        """Forget all frames, because another episode begins."""
        self._frames.clear()
