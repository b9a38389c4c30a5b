"""The benchmarks of the paper: the rows of its table "Benchmark setup"."""

from __future__ import annotations

from dataclasses import dataclass

from oatkit.errors import unknown_name


@dataclass(frozen=True)
class BenchmarkPreset:
    """A row of the paper's table "Benchmark setup", and where it runs.

    Attributes:
        benchmark: Name of the benchmark in the paper.
        tasks: Tasks, or suites of them, as the paper lists them.
        num_tasks: Number of tasks that these are.
        horizon: Number of actions in a chunk.
        action_dim: Number of dimensions of an action.
        fps: Number of steps in a second.
        median_steps: Median number of steps of a demonstration.
        driver: What praxis-eval calls the simulator; None for a real robot.
        selectors: What praxis-eval calls `tasks`, one evaluation each.
        episodes: Number of episodes of each task.
    """

    benchmark: str
    tasks: tuple[str, ...]
    num_tasks: int
    horizon: int
    action_dim: int
    fps: int
    median_steps: int
    driver: str | None
    selectors: tuple[str, ...]
    episodes: int = 50

    @property
    def execute(self) -> int:
        """Number of steps of a chunk that are executed before the next query."""
        return self.horizon // 2


BENCHMARK_PRESETS = {
    "light-libero": BenchmarkPreset(
        "LIBERO",
        ("Long suite",),
        *(10, 32, 7, 10, 259),
        "libero",
        ("libero_10",),
    ),
    "light-robomimic": BenchmarkPreset(
        "RoboMimic",
        ("Lift", "Square", "Can"),
        *(3, 32, 7, 20, 114),
        "robomimic",
        ("mt3",),
    ),
    "light-metaworld": BenchmarkPreset(
        "MetaWorld",
        ("Box Close", "Coffee Pull", "Disassemble", "Stick Pull"),
        *(4, 32, 4, 80, 72),
        "metaworld",
        ("box-close-v3", "coffee-pull-v3", "disassemble-v3", "stick-pull-v3"),
    ),
    "light-robocasa": BenchmarkPreset(
        "RoboCasa",
        ("Close Drawer", "Coffee Press Button", "Turn Off Microwave", "Turn Off Sink Faucet"),
        *(4, 32, 12, 20, 184),
        "robocasa",
        ("CloseDrawer", "CoffeePressButton", "TurnOffMicrowave", "TurnOffSinkFaucet"),
    ),
    "light-real": BenchmarkPreset(
        "Real-world",
        ("Pick-and-Place Ball", "Stack Cups"),
        *(2, 32, 7, 10, 98),
        None,
        (),
        episodes=20,
    ),
    "vlm-libero": BenchmarkPreset(
        "LIBERO",
        ("Long suite", "Goal suite", "Object suite", "Spatial suite"),
        *(40, 32, 7, 10, 140),
        "libero",
        ("libero_10", "libero_goal", "libero_object", "libero_spatial"),
    ),
    "vlm-robomimic": BenchmarkPreset(
        "RoboMimic",
        ("Lift", "Square", "Can", "Tool Hang"),
        *(4, 32, 7, 20, 130),
        "robomimic",
        ("mt4",),
    ),
    "vlm-simpler": BenchmarkPreset(
        "SimplerEnv",
        ("WidowX+Bridge series",),
        *(4, 8, 7, 5, 37),
        "simpler",
        ("bridge",),
    ),
    "vlm-robocasa365": BenchmarkPreset(
        "RoboCasa365",
        (
            "Close Toaster Oven Door",
            "Open Drawer",
            "Pick Place Drawer to Counter",
            "Turn On Electric Kettle",
            "Slide Dishwasher Rack",
        ),
        *(5, 32, 12, 20, 194),
        "robocasa",
        ("mt5",),
    ),
}
"""Benchmarks by name; the numbers are tasks, horizon, action dimensions, steps a second and median
length of a demonstration."""


def benchmark_preset(name: str) -> BenchmarkPreset:
    """The benchmark with this name."""
    if name not in BENCHMARK_PRESETS:
        raise ValueError(unknown_name("benchmark", name, BENCHMARK_PRESETS))
    return BENCHMARK_PRESETS[name]
