"""Reads the observations of an episode, and adds the frames before a single one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from oatkit.data.source import Resize
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observations import Observations


class ReadObservation(Protocol):
    """Makes an observation tensors."""

    def __call__(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; see `read_observation`."""


@dataclass(frozen=True)
class ResizedReading:
    """How a dataset is read with images of the size that a network takes them in.

    Attributes:
        read: Makes an observation with such images tensors.
        resize: Gives images of cameras that size; None where they have it, or the network resizes.
    """

    read: ReadObservation
    resize: Resize | None = None


class EpisodeReader:
    """Reads observations for a policy, and keeps the frames of its episode.

    Args:
        read: Makes an observation tensors.
        num_frames: Number of frames that the policy reads, the current one included.
        resized: Function that says how a dataset is read with images already resized; None where
            the images of a dataset are read as those of a robot.
    """

    def __init__(
        self,
        read: ReadObservation,
        num_frames: int,
        resized: Callable[[], ResizedReading | None] | None = None,
    ) -> None:
        self.read = read
        self._resized = resized
        self._history = FrameHistory[Observations](num_frames)

    def resized(self) -> ResizedReading:
        """How a dataset is read, with images resized as soon as they are decoded if it can be."""
        found = None if self._resized is None else self._resized()
        return ResizedReading(self.read) if found is None else found

    def reset(self) -> None:
        """Forget the frames of the episode; the next one is repeated as its own history."""
        self._history.clear()

    def observe(self, observation: Mapping[str, Any] | Observations) -> None:
        """Add one frame to the history, at a step between two predictions."""
        frame = observation if isinstance(observation, Observations) else self.read(observation)
        if not frame.is_single_frame:
            raise ValueError("observe() takes one frame; a batch brings its history with it")
        self._history.add(frame)

    def batch(self, observation: Mapping[str, Any] | Observations) -> tuple[Observations, bool]:
        """A batch with its history, and whether it was given as one frame."""
        given = observation if isinstance(observation, Observations) else self.read(observation)
        if not given.is_single_frame:
            return given, False
        self._history.add(given)
        return Observations.from_frames(self._history.frames()), True
