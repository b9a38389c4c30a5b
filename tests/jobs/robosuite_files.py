"""Recordings of robosuite, as its tools write them: of the scripted expert in place of a human."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from oatkit.envs.robosuite import SCENES, Robosuite
from oatkit.envs.robosuite_experts import scripted_expert
from oatkit.types.observation_keys import ENVIRONMENT_STATE

AFTER_SUCCESS = 8
"""Steps at the end, so that what is handled is well off its place."""


def write_recording(path: Path, task: str, *, seed: int = 1000, name: str | None = None) -> Path:
    """One demonstration of a task from a start pose of its own."""
    environment, expert = Robosuite(task), scripted_expert(task)
    observation, steps_left = environment.reset(seed), environment.max_steps
    states, actions = [], []
    while steps_left:
        states.append([0.0, *environment.data.qpos, *environment.data.qvel])
        actions.append(expert(observation[ENVIRONMENT_STATE]))
        result = environment.step(actions[-1])
        observation = result.observation
        steps_left = min(steps_left - 1, AFTER_SUCCESS if result.is_success else steps_left)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env"] = name or SCENES[task].name
        group = data.create_group("demo_1")
        group["states"], group["actions"] = np.array(states), np.array(actions)
        if task == "door":
            door = environment.model.body("Door_main")
            pose = {"pos": door.pos, "quat": door.quat}
            numbers = (f'{key}="{" ".join(map(str, value))}"' for key, value in pose.items())
            group.attrs["model_file"] = (
                f'<mujoco><body name="Door_main" {" ".join(numbers)}/></mujoco>'
            )
    environment.close()
    return path
