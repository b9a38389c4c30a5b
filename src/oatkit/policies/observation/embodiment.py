"""One robot of several that share a network: where what it observes and does lies in the network's.

    state       own dimensions, then zeros up to the widest state
    cameras     own cameras in their order, then none: number i of every robot is the network's i
    task        "robot: instruction", which tells the network the robot
    chunk       own dimensions of the widest actions; those of its own horizon, stretched

Shape letters: B batch, S frame, C camera, H W height and width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.image_encoder import resize_to
from oatkit.policies.observation.observations import Observations


@dataclass(frozen=True)
class Embodiment:
    """A robot's place among those of a network.

    Attributes:
        name: Name of the robot.
        state_dim: Number of dimensions of the widest state; 0 where none is read.
        camera_sizes: Height and width to which the images of each camera are resized.
        tasks: Instructions of all robots, each behind the name of its robot.
        chunk_shape: Number of steps and of action dimensions of the network's chunks.
    """

    name: str
    state_dim: int
    camera_sizes: tuple[tuple[int, int], ...]
    tasks: tuple[str, ...]
    chunk_shape: tuple[int, int]

    def instruction(self, task: str) -> str:
        """An instruction of this robot, as the network reads it."""
        return named_instruction(self.name, task)

    def with_more_tasks(self, tasks: Sequence[str]) -> Embodiment:
        """The same with further instructions of this robot behind those of all."""
        return replace(self, tasks=(*self.tasks, *map(self.instruction, tasks)))

    def place(self, own: Observations) -> Observations:
        """Observations of this robot as the network takes them, but for their task."""
        batch_size, num_frames = own.state.shape[:2]
        sizes = self.camera_sizes[: len(own.images)]
        images = [resize_to(image, size) for image, size in zip(own.images, sizes, strict=True)]
        images += [
            torch.zeros(batch_size, num_frames, 3, *size, dtype=torch.uint8)
            for size in self.camera_sizes[len(images) :]
        ]
        return replace(
            own,
            state=F.pad(own.state, (0, self.state_dim - own.state.shape[-1])),
            images=tuple(images),
            is_seen=self.place_cameras(own.is_seen),
        )

    def place_cameras(self, is_seen_BSC: Tensor) -> Tensor:
        """Which cameras of the network are seen, given those of this robot."""
        return F.pad(is_seen_BSC, (0, len(self.camera_sizes) - is_seen_BSC.shape[-1]))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state_dim": self.state_dim,
            "camera_sizes": [list(size) for size in self.camera_sizes],
            "tasks": list(self.tasks),
            "chunk_shape": list(self.chunk_shape),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Embodiment:
        steps, dim = values["chunk_shape"]
        return cls(
            name=values["name"],
            state_dim=values["state_dim"],
            camera_sizes=tuple((size[0], size[1]) for size in values["camera_sizes"]),
            tasks=tuple(values["tasks"]),
            chunk_shape=(steps, dim),
        )


def named_instruction(name: str, task: str) -> str:
    """An instruction behind the name of its robot; the name alone where there is none."""
    return f"{name}: {task}" if task else name
