"""Where and how large a table of the paper is made again: demonstrations, sizes, episodes.

tiny    seconds of MetaWorld, to see that everything runs; the numbers mean nothing
small   MetaWorld on a CPU: the paper's four tasks from state or images, and RoboMimic's in
        robosuite where that is asked for; vision-language policies lock and unlock a door, on
        backbones with random weights
paper   the paper's recipes on the demonstrations that are named, by way of praxis-eval
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import oatkit.data
from oatkit.data import Dataset
from oatkit.envs import robosuite
from oatkit.envs.metaworld import CAMERA, PAPER_TASKS
from oatkit.envs.pusht import KEYPOINTS_KEY
from oatkit.envs.simulator_table import simulator_kind
from oatkit.errors import unknown_name
from oatkit.evaluation.benchmark_presets import benchmark_preset
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.paper_tables import PaperTable
from oatkit.jobs.robosuite_demonstrations import RobosuiteDemonstrations, make_robosuite
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

SMALLEST_PATCH = 8
DOORS = ("door-lock", "door-unlock")
"""Tasks whose scenes look alike, so that a policy must read the instruction and the image."""
MADE_IN = ("metaworld", "robosuite")
"""Simulators that the smaller scales make demonstrations in; the first is the default."""
PUSHT_HORIZON = 16
PUSHT_COLUMNS = {"pusht": ENVIRONMENT_STATE, "pusht-keypoints": KEYPOINTS_KEY}
"""Columns that say where the T is; the state is where the disc is."""


@dataclass(frozen=True)
class Scale:
    """How large tokenizers, policies and evaluations are.

    Attributes:
        light: Preset of light policies and their tokenizers.
        large: Preset of vision-language policies and their tokenizers.
        episodes: Number of episodes of each task.
        temperature: Sampling temperature, where nothing else is asked for; the paper states none.
        demonstrations: Number of demonstrations of each task, where they are made here; 0 where
            datasets have to be named.
        tokenizer: Training settings of tokenizers that are not the preset's.
        policy: Training settings of policies that are not the preset's.
        backbone: Size of backbones with random weights; None for published ones.
    """

    light: str
    large: str
    episodes: int
    temperature: float
    demonstrations: int = 0
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    backbone: ScratchSize | None = None

    def changed(
        self,
        episodes: int | None = None,
        steps: int | None = None,
        tokenizer_steps: int | None = None,
    ) -> Scale:
        """The scale with other numbers of episodes and training steps, where they are given."""
        own = {} if tokenizer_steps is None else {"steps": tokenizer_steps}
        return replace(
            self,
            episodes=self.episodes if episodes is None else episodes,
            tokenizer={**self.tokenizer, **own},
            policy={**self.policy, **({} if steps is None else {"steps": steps})},
        )

    def preset(self, table: PaperTable) -> str:
        """The preset of a table's policies and tokenizers."""
        is_light = table.work == "policies" and not table.is_large
        return self.light if is_light else self.large


SCALES = {
    "tiny": Scale(
        *("tiny", "tiny", 1, 0.0, 3),
        tokenizer={"steps": 4, "batch_size": 8},
        policy={"steps": 2, "batch_size": 4},
        backbone=ScratchSize(),
    ),
    "small": Scale(
        *("small", "small", 50, 0.0, 50),
        backbone=ScratchSize(64, 3, 4, 2, 16, 64, 2, image_size=64, patch_size=16),
    ),
    "paper": Scale("paper-light", "paper-vlm", 50, 1.0),
}


@dataclass(frozen=True)
class Place:
    """A column of a table: demonstrations, and where policies act.

    Attributes:
        name: Name of the column.
        data: Demonstrations.
        horizon: Number of actions in a chunk.
        benchmark: Benchmark of praxis-eval; None for a simulator of our own.
        state_keys: Columns that are the state; the format's own if empty.
        cameras: Cameras that policies read.
        simulator_keys: Parts of praxis-eval's observation that are joined to the state.
        simulator: Our own simulator that policies act in.
    """

    name: str
    data: Path
    horizon: int = 32
    benchmark: str | None = None
    state_keys: tuple[str, ...] = ()
    cameras: tuple[str, ...] = ()
    simulator_keys: tuple[str, ...] = (STATE,)
    simulator: str = "metaworld"

    def open(self) -> Dataset:
        """The demonstrations with these columns."""
        return oatkit.data.open_dataset(self.data, state_key=self.state_keys or None)


def scale_named(name: str) -> Scale:
    """The scale of a name."""
    if name not in SCALES:
        raise ValueError(unknown_name("scale", name, SCALES))
    return SCALES[name]


def find_places(
    table: PaperTable,
    scale: Scale,
    folder: Path,
    data: Mapping[str, Path],
    *,
    simulators: Sequence[str] = (),
    simulator_keys: Mapping[str, Sequence[str]] | None = None,
    images: bool = False,
    may_make: bool = True,
    workers: int | None = None,
    show_progress: bool = False,
) -> list[Place]:
    """The columns of a table; the smaller scales make demonstrations where none are named.

    Args:
        table: Table of the paper.
        scale: How large it is made.
        folder: Where demonstrations that are made go.
        data: Benchmark to its demonstrations, `metaworld` to ours, or `pusht` to LeRobot's.
        simulators: Simulators of `MADE_IN`, each of which is a column at the smaller scales; the
            first by default.
        simulator_keys: Benchmark to the parts of praxis-eval's observation that are the state.
        images: Whether light policies read the simulator's cameras and the arm's state.
        may_make: Whether demonstrations are made; where they are not, none to read is an error.
        workers: Number of simulator processes; one per core by default.
        show_progress: Whether to show a bar.
    """
    _require_simulators(table, scale, simulators)
    if table.simulator == "pusht":
        return _pusht_places(data)
    if not scale.demonstrations:
        keys = simulator_keys or {}
        named = _named(table, data)
        return [_benchmark_place(name, path, keys.get(name)) for name, path in named.items()]
    own = {_own_name(table, one, images): one for one in simulators or MADE_IN[:1]}
    for name, simulator in own.items():
        if table.work == "policies" or name not in data:
            simulator_kind(simulator).package_versions()  # what is missing is said at once
    has_images = images or table.is_large
    places = []
    for name, simulator in own.items():
        made = data.get(name)
        if made is None:
            wanted = _wanted(simulator, table, scale, has_images)
            if not may_make:
                raise ValueError(_make_first(name, simulator, wanted))
            made = _make(folder / name, wanted, workers=workers, show_progress=show_progress)
        state = () if has_images else (ENVIRONMENT_STATE,)
        cameras = _cameras(simulator) if has_images else ()
        places.append(Place(name, made, state_keys=state, cameras=cameras, simulator=simulator))
    return places


def simulators_of(table: PaperTable) -> tuple[str, ...]:
    """The simulators of `MADE_IN` that a table can be made in."""
    if table.simulator not in MADE_IN:
        return ()
    return MADE_IN[:1] if table.is_large else MADE_IN


def _require_simulators(table: PaperTable, scale: Scale, asked: Sequence[str]) -> None:
    """Raise unless a table can be made in all of these simulators."""
    for name in asked:
        if name not in MADE_IN:
            raise ValueError(unknown_name("simulator of a table", name, MADE_IN))
    if asked and not scale.demonstrations:
        raise ValueError(
            "--env chooses simulators of the smaller scales, and at the paper's --data names the "
            "benchmarks: leave --env out"
        )
    if others := [name for name in asked if name not in simulators_of(table)]:
        raise ValueError(
            f"this table is made in {table.simulator} only, not in {', '.join(others)}: leave "
            "--env out"
        )


def _own_name(table: PaperTable, simulator: str, images: bool) -> str:
    """Name of the column of a simulator."""
    if table.is_large:
        return "doors"
    return f"{simulator}-images" if images else simulator


def _cameras(simulator: str) -> tuple[str, ...]:
    return tuple(robosuite.CAMERAS) if simulator == "robosuite" else (CAMERA,)


def _wanted(
    simulator: str, table: PaperTable, scale: Scale, images: bool
) -> Demonstrations | RobosuiteDemonstrations:
    """The demonstrations of a column that is made here."""
    if simulator == "robosuite":
        return RobosuiteDemonstrations(episodes=scale.demonstrations, images=images)
    tasks = DOORS if table.is_large else PAPER_TASKS
    size = 96 if scale.backbone is None or not table.is_large else scale.backbone.image_size
    return Demonstrations(tasks, scale.demonstrations, images=images, image_size=(size, size))


def _make(out: Path, wanted: Demonstrations | RobosuiteDemonstrations, **how: Any) -> Path:
    if isinstance(wanted, RobosuiteDemonstrations):
        return make_robosuite(out, wanted, **how)
    return make_metaworld(out, wanted, **how)


def _make_first(name: str, simulator: str, wanted: Demonstrations | RobosuiteDemonstrations) -> str:
    """What to say where demonstrations are neither named nor made."""
    images = f" --images --image-size {wanted.image_size[0]} {wanted.image_size[1]}"
    return (
        "shards share demonstrations that are there: make them first by `oatkit data make "
        f"{simulator} --tasks {' '.join(wanted.tasks)} --episodes {wanted.episodes}"
        f"{images if wanted.images else ''} --out PATH` and name them by --data {name}=PATH"
    )


def _pusht_places(data: Mapping[str, Path]) -> list[Place]:
    """PushT from the T's pose or from its keypoints, whichever is named; 16 actions are a chunk."""
    states = {name: (STATE, key) for name, key in PUSHT_COLUMNS.items()}
    for name in data:
        if name not in states:
            raise ValueError(unknown_name("dataset of PushT", name, states))
    if not data:
        raise ValueError(
            "PushT takes your copy of the human demonstrations: name LeRobot's by --data "
            "pusht=PATH, and one that has keypoints too by --data pusht-keypoints=PATH"
        )
    return [
        Place(name, data[name], PUSHT_HORIZON, state_keys=keys, simulator="pusht")
        for name, keys in states.items()
        if name in data
    ]


def _named(table: PaperTable, data: Mapping[str, Path]) -> dict[str, Path]:
    """The benchmarks of a table whose demonstrations are named."""
    for name in data:
        if name not in table.benchmarks:
            raise ValueError(unknown_name("benchmark of this table", name, table.benchmarks))
    if not data:
        raise ValueError(
            "the paper's scale takes your copy of the demonstrations: name it by --data "
            f"BENCHMARK=PATH, where BENCHMARK is one of {', '.join(table.benchmarks)}"
        )
    return {name: data[name] for name in table.benchmarks if name in data}


def _benchmark_place(name: str, path: Path, keys: Sequence[str] | None) -> Place:
    cameras = tuple(oatkit.data.open_dataset(path).cameras)
    horizon, seen = benchmark_preset(name).horizon, tuple(keys or (STATE,))
    return Place(name, path, horizon, name, cameras=cameras, simulator_keys=seen)


def ready_backbone(
    family: str,
    scale: Scale,
    folder: Path,
    dataset: Dataset,
    published: Mapping[str, str],
) -> str:
    """The checkpoint of a family: named, of the hub, or with random weights in a folder."""
    if family in published:
        return published[family]
    if scale.backbone is None:
        return FAMILIES[family].example
    from oatkit.policies.vlm.backbones.loading import write_scratch

    out = folder / family
    if not (out / "config.json").exists():
        size = scale.backbone
        if family == "qwen3-vl" and size.patch_size > SMALLEST_PATCH:
            size = replace(size, patch_size=size.patch_size // 2)  # it joins 2 x 2 patches
        write_scratch(family, out, size, [*dataset.tasks, "user\n", "assistant\n"])
    return str(out)
