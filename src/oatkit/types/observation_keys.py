"""The keys of an observation, which are LeRobot's."""

from __future__ import annotations

STATE = "observation.state"
"""State of the robot."""
ENVIRONMENT_STATE = "observation.environment_state"
"""State of everything, which only a simulator knows."""
IMAGES = "observation.images."
"""Prefix of every image; the name of the camera follows it."""
TASK = "task"
"""Instruction, as text."""
