"""Named configurations of tokenizers, policies and their training, and the benchmarks.

paper-light   the rows of the paper's light table. Tokenizers: 6 layers, 8 heads, width 256, of oat
              8 tokens with levels 8 5 5 5; AdamW 5e-5 constant, batch 512. Policies: about 5M
              parameters; AdamW 1e-4, cosine to a tenth, batch 16. fast decodes strictly
paper-vlm     the rows of its vision-language tables. Tokenizers of the same size with 16 tokens and
              levels 8 8 6 5; fast pads and cuts sequences that are no chunk
paper         for tokenizers and vision-language policies paper-vlm, for light ones paper-light
small         a CPU in minutes; what the demo uses
tiny          a CPU in seconds; what the tests use

What the paper does not state is ours: the numbers of training steps; of the light policy the two
frames, the context layer, dropout, image sizes and crops, and its encoder (5.3M parameters from
state, 16.5M with a camera); the width of the flow expert.

The benchmarks are the rows of the paper's table "Benchmark setup".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from oatkit.errors import unknown_name
from oatkit.policies import LightConfig
from oatkit.policies.vlm.vlm_config import OBJECTIVES, ExpertConfig
from oatkit.tokenizers.kind_table import kind_named
from oatkit.train import TrainConfig

Preset = TypeVar("Preset")


@dataclass(frozen=True)
class TokenizerPreset:
    """Sizes of the learned kinds, equal for all of them, and how they are trained."""

    sizes: dict[str, int]
    """Settings by name; a kind takes those that its config has."""
    train: TrainConfig
    by_kind: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Kind to further settings of it alone."""

    def settings(self, kind: str) -> dict[str, Any]:
        """The part of a kind's config that the preset decides."""
        known = kind_named(kind).settings
        shared = {name: size for name, size in self.sizes.items() if name in known}
        return shared | dict(self.by_kind.get(kind, {}))


_TINY = TrainConfig(
    steps=60,
    batch_size=64,
    learning_rate=3e-3,
    schedule="cosine",
    warmup_steps=10,
    checkpoint_every=20,
    evaluate_every=20,
    log_every=5,
)
_SMALL = TrainConfig(
    steps=8000,
    batch_size=128,
    optimizer="soap",
    learning_rate=1e-2,
    betas=(0.95, 0.95),
    schedule="cosine",
    min_ratio=0.01,
    warmup_steps=100,
    ema=0.995,
)
_PAPER_TOKENIZER = TokenizerPreset(
    sizes={
        "width": 256,
        "num_layers": 6,
        "num_heads": 8,
        "codebook_size": 2048,
        "latent_dim": 512,
    },
    train=TrainConfig(steps=100_000, batch_size=512, learning_rate=5e-5),  # the steps are ours
)
_LIGHT_OAT = {"num_tokens": 8, "levels": (8, 5, 5, 5)}
_VLM_OAT = {"num_tokens": 16, "levels": (8, 8, 6, 5)}
_PAPER_POLICY = TrainConfig(
    steps=100_000,  # ours
    batch_size=16,
    learning_rate=1e-4,
    schedule="cosine",
    min_ratio=0.1,
    weight_decay=1e-6,
)


TOKENIZER_PRESETS = {
    "tiny": TokenizerPreset(
        sizes={"width": 32, "num_layers": 1, "num_heads": 4, "codebook_size": 64, "latent_dim": 8},
        train=_TINY,
    ),
    "small": TokenizerPreset(
        sizes={
            "width": 64,
            "num_layers": 2,
            "num_heads": 4,
            "codebook_size": 2048,
            "latent_dim": 64,
        },
        train=_SMALL,
    ),
    "paper-light": replace(
        _PAPER_TOKENIZER,
        by_kind={
            "oat": _LIGHT_OAT,
            "oat-pow2": _LIGHT_OAT,
            "quest": {"levels": (8, 8, 6, 5)},
            "fast": {"decoding": "strict"},
        },
    ),
    "paper-vlm": replace(
        _PAPER_TOKENIZER,
        by_kind={
            "oat": _VLM_OAT,
            "oat-pow2": _VLM_OAT,
            "quest": {"levels": (8, 8, 6, 5)},
            "acodec": {"num_tokens": 16},
            "fast": {"decoding": "relaxed"},
        },
    ),
}
TOKENIZER_PRESETS["paper"] = TOKENIZER_PRESETS["paper-vlm"]


def tokenizer_preset(name: str) -> TokenizerPreset:
    """The preset of tokenizers with this name."""
    return _named(name, TOKENIZER_PRESETS)


@dataclass(frozen=True)
class PolicyPreset:
    """A light policy, on tokens or with a flow head, how many frames it sees and how it is
    trained."""

    net: LightConfig
    train: TrainConfig
    history: int = 2
    """Number of frames; the paper does not state its own."""


_SMALL_POLICY = PolicyPreset(
    LightConfig(width=128, num_layers=3, image_channels=16, code_smoothing=1.0),
    replace(
        _SMALL,
        steps=2500,
        batch_size=64,
        learning_rate=3e-3,
        betas=TrainConfig.betas,
        warmup_steps=200,
        weight_decay=1e-6,
    ),
    history=1,
)

POLICY_PRESETS = {
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
        replace(_TINY, batch_size=32),
    ),
    "small": _SMALL_POLICY,
    "paper-light": PolicyPreset(LightConfig(), _PAPER_POLICY),
}
POLICY_PRESETS["paper"] = POLICY_PRESETS["paper-light"]


def policy_preset(name: str) -> PolicyPreset:
    """The preset of light policies with this name."""
    return _named(name, POLICY_PRESETS)


@dataclass(frozen=True)
class VlmPreset:
    """The flow expert of a vision-language policy and how the policy is trained."""

    expert: ExpertConfig
    train: TrainConfig


_SMALL_VLM = TrainConfig(
    steps=3000,
    batch_size=32,
    learning_rate=1e-3,
    schedule="cosine",
    min_ratio=0.05,
    warmup_steps=100,
    weight_decay=1e-6,
    evaluate_every=500,
)
_TINY_VLM = replace(_TINY, steps=30, batch_size=8, warmup_steps=5)
_PAPER_VLM = replace(_PAPER_POLICY, steps=60_000, workers=4)  # the steps are ours
_COTRAINED = replace(_PAPER_VLM, batch_size=32, learning_rate=5e-5, schedule="constant")

VLM_PRESETS = {
    "tiny": dict.fromkeys(OBJECTIVES, VlmPreset(ExpertConfig(width=32), _TINY_VLM)),
    "small": dict.fromkeys(OBJECTIVES, VlmPreset(ExpertConfig(width=128), _SMALL_VLM)),
    "paper-vlm": {
        "vlm-ar": VlmPreset(ExpertConfig(), _PAPER_VLM),
        "vlm-tc": VlmPreset(ExpertConfig(), _COTRAINED),
        "vlm-flow": VlmPreset(ExpertConfig(), _COTRAINED),
    },
}
VLM_PRESETS["paper"] = VLM_PRESETS["paper-vlm"]
"""Presets by name and objective; `small` and `tiny` are for backbones with random weights."""


def vlm_preset(name: str, objective: str) -> VlmPreset:
    """The preset of an objective of vision-language policies with this name."""
    return _named(name, VLM_PRESETS)[objective]


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
    return _named(name, BENCHMARK_PRESETS, "benchmark")


def _named(name: str, presets: Mapping[str, Preset], what: str = "preset") -> Preset:
    if name not in presets:
        raise ValueError(unknown_name(what, name, presets))
    return presets[name]
