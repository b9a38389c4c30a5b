"""Demonstrations, backbones, tokenizers and policies of the benchmarks of vision-language policies.

Each is made unless it is there. Simulator processes import this file too, so transformers is only
imported where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import oatkit
from oatkit.data import Dataset
from oatkit.envs.metaworld import CAMERA
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.row_runs import is_trained
from oatkit.jobs.untrained_policy import policy_config
from oatkit.policies import Policy, VlmConfig, load_policy
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.tokenizers.kind_table import kind_named
from oatkit.types import Decoding, Schedule

FAMILIES = ("paligemma2", "qwen3-vl")
EXPERT_WIDTH = TOKENIZER_BATCH = 64
DECODING: Decoding = "relaxed"
"""What `fast` does with sequences that are no chunk: the paper mends them in simulation."""


@dataclass(frozen=True)
class Options:
    """Options of the pipeline."""

    out: Path = Path("out/vlm_pipeline")
    tasks: tuple[str, ...] = ("door-lock", "door-unlock")
    demonstrations: int = 100
    """Number of demonstrations of each task."""
    image_size: int = 64
    horizon: int = 16
    tokens: int = 8
    """Number of tokens of a chunk, for kinds that can choose."""
    tokenizer_steps: int = 800
    steps: int = 2000
    batch_size: int = 32
    episodes: int = 30
    """Number of episodes of each task that are evaluated."""
    max_steps: int = 200
    """Maximum number of steps of an episode; demonstrations take 40 to 130."""
    overfit_steps: int = 2000
    seed: int = 0
    only: tuple[str, ...] = ()
    """Rows to run, by how their names begin; all by default."""
    tiny: bool = False
    """Whether only to show that everything runs."""

    @property
    def grouped(self) -> tuple[int, ...]:
        """Endpoints of the power-of-two schedule."""
        return Schedule.pow2(self.tokens).endpoints

    def backbone(self, family: str) -> ScratchSize:
        """Size of a backbone for a CPU; both families use 16 slots for an image."""
        if self.tiny:
            return ScratchSize()
        return ScratchSize(
            width=64,
            num_layers=3,
            num_heads=4,
            num_kv_heads=2,
            head_dim=16,
            vision_width=64,
            vision_layers=2,
            image_size=self.image_size,
            patch_size=8 if family == "qwen3-vl" else 16,
        )


TINY: dict[str, Any] = {
    "demonstrations": 3,
    "image_size": 32,
    "tokenizer_steps": 20,
    "steps": 8,
    "batch_size": 4,
    "episodes": 1,
    "max_steps": 16,
    "overfit_steps": 4,
}


@dataclass(frozen=True)
class Row:
    """A policy of the pipeline.

    Attributes:
        objective: Objective of the policy.
        kind: Kind of the tokenizer; pure flow takes only the shape of chunks from it.
        family: Family of the backbone.
        is_misled: Whether it is also evaluated with other images and with another instruction.
        is_grouped: Whether it generates in powers of two though its tokenizer does not.
    """

    objective: str
    kind: str
    family: str
    is_misled: bool = True
    is_grouped: bool = False

    @property
    def name(self) -> str:
        kind = "" if self.objective == "vlm-flow" else f"/{self.kind}"
        grouped = ", powers of two" if self.is_grouped else ""
        return f"{self.objective}{kind}{grouped}/{self.family}"


def make_demonstrations(options: Options) -> Path:
    """Folder of the demonstrations."""
    wanted = Demonstrations(
        options.tasks,
        options.demonstrations,
        options.seed,
        images=True,
        image_size=(options.image_size, options.image_size),
        shadows=False,
    )
    return make_metaworld(options.out / "demonstrations", wanted, show_progress=True)


def make_backbone(options: Options, family: str, dataset: Dataset) -> Path:
    """Folder of a backbone with random weights."""
    from oatkit.policies.vlm.backbones.loading import write_scratch

    folder = options.out / "backbones" / family
    if not (folder / "config.json").exists():
        corpus = [*dataset.tasks, "user\n", "assistant\n"]
        write_scratch(family, folder, options.backbone(family), corpus, options.seed)
    return folder


def tokenizer_steps(options: Options, kind: str) -> int | None:
    """Training steps of a kind's tokenizer; None where it is fitted."""
    return options.tokenizer_steps if kind_named(kind).is_learned else None


def make_tokenizer(options: Options, kind: str) -> Path:
    """Folder of the trained tokenizer of a kind."""
    out = options.out / "tokenizers" / kind
    if not is_trained(out, tokenizer_steps(options, kind)):
        sizes: dict[str, Any] = {"horizon": options.horizon}
        if kind in ("oat", "oat-pow2", "acodec"):
            sizes["num_tokens"] = options.tokens
        if kind == "fast":
            sizes["decoding"] = DECODING
        recipe = {"steps": options.tokenizer_steps, "batch_size": TOKENIZER_BATCH}
        recipe |= {"seed": options.seed}
        oatkit.train_tokenizer(
            oatkit.open_dataset(options.out / "demonstrations"),
            kind,
            out,
            preset="tiny" if options.tiny else "small",
            train=recipe,
            show_progress=True,
            **sizes,
        )
    return out


def policy_dir(options: Options, row: Row) -> Path:
    """Folder of the policy of a row."""
    return options.out / "policies" / row.name.replace("/", "_")


def make_policy(options: Options, row: Row, dataset: Dataset) -> Policy:
    """The trained policy of a row."""
    out = policy_dir(options, row)
    if not is_trained(out, options.steps, tokenizer_steps(options, row.kind)):
        preset = "tiny" if options.tiny else "small"
        config = policy_config(row.objective, preset)
        assert isinstance(config, VlmConfig)
        endpoints = options.grouped if row.is_grouped else None
        recipe = {"steps": options.steps, "batch_size": options.batch_size, "workers": 0}
        oatkit.train_policy(
            oatkit.open_dataset(options.out / "demonstrations"),
            make_tokenizer(options, row.kind),
            replace(config, expert=replace(config.expert, width=EXPERT_WIDTH), endpoints=endpoints),
            out,
            backbone=str(make_backbone(options, row.family, dataset)),
            preset=preset,
            cameras=(CAMERA,),
            train={**recipe, "checkpoint_every": 200, "seed": options.seed},
            show_progress=True,
        )
    return open_policy(out)


def decoded(kind: str) -> str:
    """What the names of episodes that are kept end with: `fast` was strict once."""
    return f", {DECODING}" if kind == "fast" else ""


def open_policy(folder: Path) -> Policy:
    """The policy of a folder, as it acts here."""
    policy = load_policy(folder)
    if policy.tokenizer.kind == "fast":
        policy.tokenizer.choose_decoding(DECODING)
    return policy
