"""How often our experts solve robosuite's tasks, and how fast the simulator is.

    python -m benchmarks.robosuite_experts [--tasks lift ...] [--episodes 50]

Start poses are those of the first demonstrations of seed 0. Speeds are per second of CPU time of
one core, so that a busy machine changes them little: steps of our adapter under the expert, steps
of robosuite's own environment, and images of 84 x 84 of both cameras, with shadows and without.
Tasks are saved one by one.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.record import read_results, write_result
from oatkit.envs.robosuite import CAMERAS, SCENES, TASKS, Robosuite
from oatkit.envs.robosuite_experts import Expert, scripted_expert
from oatkit.envs.simulator import demonstration_seed
from oatkit.evaluation.success_statistics import success_rate
from oatkit.types.observation_keys import ENVIRONMENT_STATE

NAME = "robosuite_experts"
SEED = 0
IMAGE_SIZE = (84, 84)
NUM_TIMED = 60


def main(argv: list[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--episodes", type=int, default=50)
    args = parser.parse_args(argv)
    for task in args.tasks:
        row = {**measure_expert(task, args.episodes), **measure_speed(task)}
        print(task, row, flush=True)
        found = {**read_results(NAME), task: row}
        results = {name: found[name] for name in TASKS if name in found}
        settings = {"episodes": args.episodes, "image_size": IMAGE_SIZE}
        write_result(NAME, seed=SEED, settings=settings, results=results)


def measure_expert(
    task: str, episodes: int, make_expert: Callable[[str], Expert] = scripted_expert
) -> dict[str, Any]:
    """Success of an expert with its interval, and the steps that its successes take."""
    environment = Robosuite(task)
    lengths = [
        solve(environment, demonstration_seed(SEED, number), make_expert(task))
        for number in range(episodes)
    ]
    solved = [length for length in lengths if length is not None]
    success = success_rate(len(solved), episodes)
    return {
        "successes": len(solved),
        "episodes": episodes,
        "interval": [success.low, success.high],
        "steps": [int(np.quantile(solved, q)) for q in (0, 0.5, 1)] if solved else None,
    }


def solve(environment: Robosuite, seed: int, expert: Expert) -> int | None:
    """Steps until the expert's first success; None without one."""
    observation = environment.reset(seed)
    for number in range(1, environment.max_steps + 1):
        result = environment.step(expert(observation[ENVIRONMENT_STATE]))
        if result.is_success:
            return number
        observation = result.observation
    return None


def measure_speed(task: str) -> dict[str, Any]:
    """Steps and images for a second of one core."""
    environment, action_A = Robosuite(task), np.zeros(7)
    environment.reset(SEED)
    own = environment._environment
    found = {
        "steps_per_s": rate(lambda: environment.step(action_A)),
        "own_steps_per_s": rate(lambda: own.step(action_A)),
        "reset_ms": round(1000 / rate(lambda: environment.reset(SEED)), 1),
    }
    for shadows in (True, False):
        filmed = Robosuite(task, dict.fromkeys(CAMERAS, IMAGE_SIZE), shadows=shadows)
        filmed.reset(SEED)
        frames = rate(filmed.render, count=10) * len(CAMERAS)
        found["images_per_s" if shadows else "images_without_shadows_per_s"] = round(frames, 1)
        filmed.close()
    return found | {"robosuite_name": SCENES[task].name}


def rate(do: Callable[[], Any], count: int = NUM_TIMED) -> float:
    """How often something is done in a second of CPU time."""
    for _ in range(3):
        do()
    start = time.process_time()
    for _ in range(count):
        do()
    return round(count / (time.process_time() - start), 1)


if __name__ == "__main__":
    main()
