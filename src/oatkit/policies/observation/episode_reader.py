"""Reads the observations of an episode, and adds the frames before a single one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observations import Observations


class ReadObservation(Protocol):
    """Makes an observation tensors."""

    def __call__(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation; see `read_observation`."""


class EpisodeReader:
    """Reads observations for a policy, and keeps the frames of its episode.

    Args:
        read: Makes an observation tensors.
        num_frames: Number of frames that the policy reads, the current one included.
    """

    def __init__(self, read: ReadObservation, num_frames: int) -> None:
        self.read = read
        self._history = FrameHistory[Observations](num_frames)

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
