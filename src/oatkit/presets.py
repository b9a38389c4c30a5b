"""Named whole configurations of tokenizers and policies and their training, and the benchmarks.

paper   the paper's tables. Tokenizers: 6 layers, 8 heads, width 256; AdamW 5e-5 constant, batch
        512. Policies: about 5M parameters; AdamW 1e-4, cosine to a tenth, batch 16
small   a CPU in minutes; what the demo uses
served  light policies only: as small, but they see one frame, which is what a robot sends
tiny    a CPU in seconds; what the tests use

The benchmarks are the rows of the paper's table "Benchmark setup".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from oatkit.errors import unknown_name
from oatkit.policies import LightConfig
from oatkit.policies.vlm.vlm_config import HEADS, ExpertConfig
from oatkit.tokenizers.kind_table import kind_named
from oatkit.train import TrainConfig


@dataclass(frozen=True)
class TokenizerPreset:
    """Sizes of the learned kinds, equal for all of them, and how they are trained."""

    sizes: dict[str, int]
    """Settings by name; a kind takes those that its config has."""
    train: TrainConfig

    def settings(self, kind: str) -> dict[str, Any]:
        """The part of a kind's config that the preset decides."""
        known = kind_named(kind).settings
        return {name: size for name, size in self.sizes.items() if name in known}


TOKENIZER_PRESETS = {
    "paper": TokenizerPreset(
        sizes={
            "width": 256,
            "num_layers": 6,
            "num_heads": 8,
            "codebook_size": 2048,
            "latent_dim": 512,
        },
        train=TrainConfig(steps=100_000, batch_size=512, learning_rate=5e-5),
    ),
    "small": TokenizerPreset(
        sizes={
            "width": 64,
            "num_layers": 2,
            "num_heads": 4,
            "codebook_size": 2048,
            "latent_dim": 64,
        },
        train=TrainConfig(
            steps=2000,
            batch_size=128,
            optimizer="soap",
            learning_rate=1e-2,
            betas=(0.95, 0.95),
            schedule="cosine",
            min_ratio=0.01,
            warmup_steps=100,
            ema=0.995,
        ),
    ),
    "tiny": TokenizerPreset(
        sizes={"width": 32, "num_layers": 1, "num_heads": 4, "codebook_size": 64, "latent_dim": 8},
        train=TrainConfig(
            steps=60,
            batch_size=64,
            learning_rate=3e-3,
            schedule="cosine",
            warmup_steps=10,
            checkpoint_every=20,
            evaluate_every=20,
            log_every=5,
        ),
    ),
}


def tokenizer_preset(name: str) -> TokenizerPreset:
    if name not in TOKENIZER_PRESETS:
        raise ValueError(unknown_name("preset", name, TOKENIZER_PRESETS))
    return TOKENIZER_PRESETS[name]


@dataclass(frozen=True)
class PolicyPreset:
    """A light policy, how many frames it sees and how it is trained."""

    net: LightConfig
    train: TrainConfig
    history: int = 2


POLICY_PRESETS = {
    "paper": PolicyPreset(
        LightConfig(),
        TrainConfig(
            steps=100_000,
            batch_size=16,
            learning_rate=1e-4,
            schedule="cosine",
            min_ratio=0.1,
            weight_decay=1e-6,
        ),
    ),
    "small": PolicyPreset(
        LightConfig(width=128, num_layers=3, image_channels=16),
        TrainConfig(
            steps=2500,
            batch_size=64,
            optimizer="soap",
            learning_rate=3e-3,
            schedule="cosine",
            min_ratio=0.01,
            warmup_steps=200,
            weight_decay=1e-6,
            ema=0.995,
        ),
    ),
    "tiny": PolicyPreset(
        LightConfig(
            width=32,
            num_layers=1,
            num_heads=2,
            dropout=0.0,
            image_size=40,
            crop_size=36,
            image_channels=4,
            num_points=8,
        ),
        TrainConfig(
            steps=60,
            batch_size=32,
            learning_rate=3e-3,
            schedule="cosine",
            warmup_steps=10,
            checkpoint_every=20,
            evaluate_every=20,
            log_every=5,
        ),
    ),
}
POLICY_PRESETS["served"] = replace(POLICY_PRESETS["small"], history=1)


def policy_preset(name: str) -> PolicyPreset:
    if name not in POLICY_PRESETS:
        raise ValueError(unknown_name("preset", name, POLICY_PRESETS))
    return POLICY_PRESETS[name]


@dataclass(frozen=True)
class BenchmarkPreset:
    """A row of the paper's table "Benchmark setup", and where it runs.

    Attributes:
        benchmark: The paper's name of it.
        tasks: As the paper lists them: tasks, or suites of them.
        num_tasks: How many tasks these are.
        horizon: Steps of a chunk.
        action_dim: Of an action.
        fps: Steps a second.
        median_steps: Of a demonstration.
        driver: What praxis-eval calls the simulator; None for a real robot.
        selectors: What praxis-eval calls `tasks`, one evaluation each.
        episodes: Of each task.
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
        """Steps of a chunk that are executed before the next query."""
        return self.horizon // 2


BENCHMARK_PRESETS = {
    "light-libero": BenchmarkPreset(
        benchmark="LIBERO",
        tasks=("Long suite",),
        num_tasks=10,
        horizon=32,
        action_dim=7,
        fps=10,
        median_steps=259,
        driver="libero",
        selectors=("libero_10",),
    ),
    "light-robomimic": BenchmarkPreset(
        benchmark="RoboMimic",
        tasks=("Lift", "Square", "Can"),
        num_tasks=3,
        horizon=32,
        action_dim=7,
        fps=20,
        median_steps=114,
        driver="robomimic",
        selectors=("mt3",),
    ),
    "light-metaworld": BenchmarkPreset(
        benchmark="MetaWorld",
        tasks=("Box Close", "Coffee Pull", "Disassemble", "Stick Pull"),
        num_tasks=4,
        horizon=32,
        action_dim=4,
        fps=80,
        median_steps=72,
        driver="metaworld",
        selectors=("box-close-v3", "coffee-pull-v3", "disassemble-v3", "stick-pull-v3"),
    ),
    "light-robocasa": BenchmarkPreset(
        benchmark="RoboCasa",
        tasks=(
            "Close Drawer",
            "Coffee Press Button",
            "Turn Off Microwave",
            "Turn Off Sink Faucet",
        ),
        num_tasks=4,
        horizon=32,
        action_dim=12,
        fps=20,
        median_steps=184,
        driver="robocasa",
        selectors=("CloseDrawer", "CoffeePressButton", "TurnOffMicrowave", "TurnOffSinkFaucet"),
    ),
    "light-real": BenchmarkPreset(
        benchmark="Real-world",
        tasks=("Pick-and-Place Ball", "Stack Cups"),
        num_tasks=2,
        horizon=32,
        action_dim=7,
        fps=10,
        median_steps=98,
        driver=None,
        selectors=(),
        episodes=20,
    ),
    "vlm-libero": BenchmarkPreset(
        benchmark="LIBERO",
        tasks=("Long suite", "Goal suite", "Object suite", "Spatial suite"),
        num_tasks=40,
        horizon=32,
        action_dim=7,
        fps=10,
        median_steps=140,
        driver="libero",
        selectors=("libero_10", "libero_goal", "libero_object", "libero_spatial"),
    ),
    "vlm-robomimic": BenchmarkPreset(
        benchmark="RoboMimic",
        tasks=("Lift", "Square", "Can", "Tool Hang"),
        num_tasks=4,
        horizon=32,
        action_dim=7,
        fps=20,
        median_steps=130,
        driver="robomimic",
        selectors=("mt4",),
    ),
    "vlm-simpler": BenchmarkPreset(
        benchmark="SimplerEnv",
        tasks=("WidowX+Bridge series",),
        num_tasks=4,
        horizon=8,
        action_dim=7,
        fps=5,
        median_steps=37,
        driver="simpler",
        selectors=("bridge",),
    ),
    "vlm-robocasa365": BenchmarkPreset(
        benchmark="RoboCasa365",
        tasks=(
            "Close Toaster Oven Door",
            "Open Drawer",
            "Pick Place Drawer to Counter",
            "Turn On Electric Kettle",
            "Slide Dishwasher Rack",
        ),
        num_tasks=5,
        horizon=32,
        action_dim=12,
        fps=20,
        median_steps=194,
        driver="robocasa",
        selectors=("mt5",),
    ),
}


def benchmark_preset(name: str) -> BenchmarkPreset:
    if name not in BENCHMARK_PRESETS:
        raise ValueError(unknown_name("benchmark", name, BENCHMARK_PRESETS))
    return BENCHMARK_PRESETS[name]


@dataclass(frozen=True)
class VlmPreset:
    """The flow expert of a vision-language policy and how the policy is trained."""

    expert: ExpertConfig
    train: TrainConfig


_PAPER = TrainConfig(
    steps=60_000,
    batch_size=16,
    learning_rate=1e-4,
    schedule="cosine",
    min_ratio=0.1,
    weight_decay=1e-6,
    workers=4,
)
_SMALL = TrainConfig(
    steps=3000,
    batch_size=32,
    learning_rate=1e-3,
    schedule="cosine",
    min_ratio=0.05,
    warmup_steps=100,
    weight_decay=1e-6,
    evaluate_every=500,
)
_TINY = TrainConfig(
    steps=30,
    batch_size=8,
    learning_rate=3e-3,
    schedule="cosine",
    warmup_steps=5,
    checkpoint_every=20,
    evaluate_every=20,
    log_every=5,
)
_COTRAINED = replace(_PAPER, batch_size=32, learning_rate=5e-5, schedule="constant")

VLM_PRESETS = {
    "paper": {
        "vlm-ar": VlmPreset(ExpertConfig(), _PAPER),
        "vlm-tc": VlmPreset(ExpertConfig(), _COTRAINED),
        "vlm-flow": VlmPreset(ExpertConfig(), _COTRAINED),
    },
    "small": dict.fromkeys(HEADS, VlmPreset(ExpertConfig(width=128), _SMALL)),
    "tiny": dict.fromkeys(HEADS, VlmPreset(ExpertConfig(width=32), _TINY)),
}
"""`small` and `tiny` are for backbones with random weights."""


def vlm_preset(name: str, objective: str) -> VlmPreset:
    if name not in VLM_PRESETS:
        raise ValueError(unknown_name("preset", name, VLM_PRESETS))
    return VLM_PRESETS[name][objective]
