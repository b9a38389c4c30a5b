"""`oatkit vlm`: check a backbone, list all policies, write a backbone with random weights."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor
from tyro.conf import Positional, arg

from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.errors import OatkitError
from oatkit.measure.invariants import check_insulation, check_tokens
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import VlmConfig, VlmPolicy
from oatkit.policies.observation.observation_spec import (
    IMAGES,
    STATE,
    TASK,
    Observations,
    ObservationSpec,
)
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.combinations import cells
from oatkit.policies.vlm.vlm_config import ExpertConfig, Objective
from oatkit.storage.atomic_write import written_whole
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.action_tokenizer import DataFacts
from oatkit.tokenizers.kind_table import make_codec
from oatkit.types import BackboneCheck, Invariant, Schedule, Tokens

HORIZON, ACTION_DIM, STATE_DIM, NUM_TOKENS = 32, 7, 8, 16
SMALL = {"width": 32, "num_layers": 1, "num_heads": 2}
TASKS = ("pick up the red cube", "put the bowl on the plate and close the drawer")
REPEATS = 3


@dataclass(frozen=True)
class CheckVlm:
    """Load a backbone, take one training and one generation step, and check every invariant.

    Example:
        oatkit vlm check Qwen/Qwen3-VL-2B-Instruct --dtype bfloat16 --lora-rank 16
    """

    checkpoint: Annotated[Positional[str], arg(metavar="ID_OR_DIR")]
    """Folder or hub id."""
    image_size: int = 224
    """Height and width of the images that are shown."""
    expert_width: int = 256
    """Of the flow expert that is checked with it."""
    device: str = "cpu"
    """Where to run, such as cuda."""
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write what was found as JSON."""
    loading: Annotated[BackboneOptions, arg(name="")] = BackboneOptions()


@dataclass(frozen=True)
class ListCells:
    """List every vision-language policy: objective, tokenizer, backbone.

    Example:
        oatkit vlm cells
    """


@dataclass(frozen=True)
class WriteScratch:
    """Write a small backbone with random weights, to try everything without a download.

    Example:
        oatkit vlm scratch --family qwen3-vl --out out/qwen-scratch
    """

    family: Literal["paligemma2", "qwen3-vl", "smolvlm"]
    """Which kind of backbone."""
    out: Path
    """Where to write the checkpoint."""
    seed: int = 0
    """Of the weights."""
    texts: tuple[str, ...] = TASKS
    """What its vocabulary is fitted to; it reads any text."""
    size: Annotated[ScratchSize, arg(name="")] = ScratchSize()


def run_check(options: CheckVlm, console: Console) -> int:
    """0 if everything holds, else 1."""
    found = check_backbone(options)
    console.print(draw(found))
    if options.out is not None:
        with written_whole(options.out) as aside:
            aside.write_text(json.dumps(asdict(found), indent=1) + "\n")
        console.print(f"wrote {options.out}", soft_wrap=True)
    return 0 if all(invariant.holds for invariant in found.invariants) else 1


def run_cells(console: Console) -> int:
    for cell in cells():
        console.print(f"{cell.name:<30}{cell.command}", soft_wrap=True, markup=False)
    return 0


def run_scratch(options: WriteScratch) -> Path:
    from oatkit.policies.vlm.backbones.loading import write_scratch

    if (options.out / "config.json").exists():
        raise OatkitError(f"{options.out} holds a checkpoint already: name another --out")
    return write_scratch(options.family, options.out, options.size, options.texts, options.seed)


def check_backbone(options: CheckVlm) -> BackboneCheck:
    """Two policies on the backbone, one after the other: autoregressive and co-trained."""
    spoken = _check_spoken(_policy(options, "vlm-ar"), options)
    invariants, prefill_ms, suffix_ms, num_slots = spoken
    taught = _policy(options, "vlm-tc")
    sample = _sample(taught, options)
    invariants += check_insulation(taught, *sample)
    train_s = _train_step(taught, *sample)
    return BackboneCheck(
        checkpoint=options.checkpoint,
        family=taught.net.backbone.family.name,
        num_parameters=sum(p.numel() for p in taught.net.backbone.parameters()),
        num_trained=sum(p.numel() for p in taught.net.parameters() if p.requires_grad),
        context_slots=num_slots,
        train_s=train_s,
        train_bytes=_memory(options.device),
        prefill_ms=prefill_ms,
        suffix_ms=suffix_ms,
        invariants=tuple(invariants),
    )


def _check_spoken(
    policy: VlmPolicy, options: CheckVlm
) -> tuple[list[Invariant], float, float, int]:
    """Invariants, milliseconds of a prefill and of a call, slots of the context."""
    observations, tokens, _ = _sample(policy, options)
    found = []
    for schedule in (Schedule.tokenwise(NUM_TOKENS), Schedule.pow2(NUM_TOKENS)):
        found += check_tokens(policy, observations, tokens.ids, schedule)
    with torch.inference_mode():
        context = policy.net.encode(observations)
        prefill_ms = _median_ms(lambda: policy.net.encode(observations))
        suffix_ms = _median_ms(
            lambda: policy.net.logits(tokens.ids, Schedule.one_shot(NUM_TOKENS), context)
        )
    return found, prefill_ms, suffix_ms, context.is_seen.shape[1]


def _policy(options: CheckVlm, objective: Objective) -> VlmPolicy:
    from oatkit.policies.vlm.backbones.loading import load_backbone

    config = VlmConfig(
        objective=objective,
        expert=ExpertConfig(width=options.expert_width),
        backbone=options.loading,
    )
    unit = Normalizer("identity", np.zeros(STATE_DIM), np.ones(STATE_DIM))
    cameras = {"front": (options.image_size, options.image_size)}
    spec = ObservationSpec(1, unit, cameras, TASKS)
    actions = Normalizer("identity", np.zeros(ACTION_DIM), np.ones(ACTION_DIM))
    backbone = load_backbone(options.checkpoint, options.loading)
    torch.manual_seed(0)
    policy = VlmPolicy.make(config, backbone, _tokenizer(actions), spec, actions)
    return policy if options.loading.device_map else policy.to(options.device)


def _tokenizer(actions: Normalizer) -> ActionTokenizer:
    """With as many tokens and codes as the paper's; nothing here depends on its weights."""
    config = make_config(
        "oat-pow2", horizon=HORIZON, action_dim=ACTION_DIM, num_tokens=NUM_TOKENS, **SMALL
    )
    statistics = compute_statistics(lambda: [np.zeros((1, ACTION_DIM))], dim=ACTION_DIM)
    return ActionTokenizer(make_codec(config), actions, DataFacts(statistics))


def _sample(policy: VlmPolicy, options: CheckVlm) -> tuple[Observations, Tokens, Tensor]:
    rng = np.random.default_rng(1)
    size = (len(TASKS), 1, options.image_size, options.image_size, 3)
    observation: dict[str, Any] = {
        TASK: list(TASKS),
        STATE: rng.normal(size=(len(TASKS), 1, STATE_DIM)).astype(np.float32),
        f"{IMAGES}front": rng.integers(256, size=size, dtype=np.uint8),
    }
    read, _ = policy.read(observation)
    chunks = rng.normal(size=(len(TASKS), HORIZON, ACTION_DIM)).cumsum(axis=1) / 8
    actions_BTA = torch.from_numpy(chunks.astype(np.float32)).to(policy.device)
    ids_BK = rng.integers(policy.tokenizer.vocab_size, size=(len(TASKS), NUM_TOKENS))
    tokens = Tokens.full(torch.from_numpy(ids_BK).to(policy.device))
    return read.to(policy.device), tokens, actions_BTA


def _train_step(
    policy: VlmPolicy, observations: Observations, tokens: Tokens, actions_BTA: Tensor
) -> float:
    trained = [p for p in policy.net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, 1e-5)
    began = time.perf_counter()
    keys = sample_keys(0, 1, torch.arange(len(observations))).to(policy.device)
    loss = policy.loss(observations, tokens, actions_BTA, SampleRandom(keys))
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    if not torch.isfinite(loss):
        raise OatkitError(f"the loss of {policy} is {float(loss)}: try --dtype float32")
    return time.perf_counter() - began


def _median_ms(run: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS + 1):  # the first warms up
        began = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 1000 * float(np.median(times[1:]))


def _memory(device: str) -> int:
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated(device))
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def draw(found: BackboneCheck) -> Text:
    """Sizes and times, then what holds."""
    text = Text(overflow="fold")
    text.append(f"{found.checkpoint}", style="bold")
    text.append(
        f"  {found.family}, {found.num_parameters:,} parameters, {found.num_trained:,} trained "
        f"with the expert, {found.context_slots} context slots\n",
        style="dim",
    )
    text.append(
        f"one training step of 2: {found.train_s:.2f} s, {found.train_bytes / 1e9:.2f} GB at most\n"
        f"prefill of 2: {found.prefill_ms:.1f} ms, one call for {NUM_TOKENS} tokens: "
        f"{found.suffix_ms:.1f} ms\n"
    )
    for invariant in found.invariants:
        mark, style = ("holds ", "green") if invariant.holds else ("BROKEN", "red")
        text.append(mark, style=style)
        text.append(f"  {invariant.name} ({invariant.value:.2g})\n")
    text.rstrip()
    return text
