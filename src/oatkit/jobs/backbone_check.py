"""What must hold for policies on a vision-language backbone, and what they cost."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.errors import OatkitError
from oatkit.measure.invariants import check_insulation, check_tokens
from oatkit.nn.device import Device, read_clock, resolve_device
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import VlmConfig, VlmPolicy
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.tokenizers.kind_table import make_codec
from oatkit.types import BackboneCheck, Invariant, Schedule, Tokens
from oatkit.types.observation_keys import IMAGES, STATE, TASK

HORIZON, ACTION_DIM, STATE_DIM, NUM_TOKENS = 32, 7, 8, 16
SMALL = {"width": 32, "num_layers": 1, "num_heads": 2}
TASKS = ("pick up the red cube", "put the bowl on the plate and close the drawer")
CAMERA = "front"
REPEATS = 3


def check_backbone(
    checkpoint: str,
    loading: BackboneOptions = BackboneOptions(),
    *,
    image_size: int = 224,
    expert_width: int = 256,
    device: Device = "auto",
) -> BackboneCheck:
    """Check what must hold for two policies on a backbone: an autoregressive, a co-trained one.

    Args:
        checkpoint: Folder or hub id of the backbone.
        loading: How the backbone is loaded and which of its weights are trained.
        image_size: Height and width of the images that are shown.
        expert_width: Width of the flow expert of the co-trained policy.
        device: Where to run: "auto", "cpu", "cuda", "cuda:1" or "mps".
    """
    place = resolve_device(device)
    policy = _policy(checkpoint, loading, "vlm-ar", image_size, expert_width, place)
    invariants, prefill_ms, suffix_ms, num_slots = _check_tokens(policy)
    del policy  # the two never share the memory
    policy = _policy(checkpoint, loading, "vlm-tc", image_size, expert_width, place)
    sample = _sample(policy)
    invariants += check_insulation(policy, *sample)
    train_s = _train_step(policy, *sample)
    return BackboneCheck(
        checkpoint=checkpoint,
        family=policy.net.backbone.family.name,
        num_parameters=sum(p.numel() for p in policy.net.backbone.parameters()),
        num_trained=sum(p.numel() for p in policy.net.parameters() if p.requires_grad),
        context_slots=num_slots,
        train_s=train_s,
        train_bytes=_memory(place),
        prefill_ms=prefill_ms,
        suffix_ms=suffix_ms,
        invariants=tuple(invariants),
    )


def _check_tokens(policy: VlmPolicy) -> tuple[list[Invariant], float, float, int]:
    """Invariants, milliseconds of a prefill and of a call, slots of the context."""
    observations, tokens, _ = _sample(policy)
    found = []
    for schedule in (Schedule.tokenwise(NUM_TOKENS), Schedule.pow2(NUM_TOKENS)):
        found += check_tokens(policy, observations, tokens.ids, schedule)
    with torch.inference_mode():
        context = policy.net.encode(observations)
        prefill_ms = _median_ms(lambda: policy.net.encode(observations), policy.device)
        suffix_ms = _median_ms(
            lambda: policy.net.logits(tokens.ids, Schedule.one_shot(NUM_TOKENS), context),
            policy.device,
        )
    return found, prefill_ms, suffix_ms, context.is_seen.shape[1]


def _policy(
    checkpoint: str,
    loading: BackboneOptions,
    objective: str,
    image_size: int,
    expert_width: int,
    device: torch.device,
) -> VlmPolicy:
    from oatkit.policies.vlm.backbones.loading import load_backbone

    config = VlmConfig(
        objective=objective, expert=ExpertConfig(width=expert_width), backbone=loading
    )
    unit = Normalizer("identity", np.zeros(STATE_DIM), np.ones(STATE_DIM))
    spec = ObservationSpec(1, unit, {CAMERA: (image_size, image_size)}, TASKS)
    actions = Normalizer("identity", np.zeros(ACTION_DIM), np.ones(ACTION_DIM))
    backbone = load_backbone(checkpoint, loading)
    torch.manual_seed(0)
    policy = VlmPolicy.make(config, backbone, _tokenizer(actions), spec, actions)
    return policy if loading.device_map else policy.to(device)


def _tokenizer(actions: Normalizer) -> ActionTokenizer:
    """A tokenizer of the paper's vocabulary and length; nothing here depends on its weights."""
    config = make_config(
        "oat-pow2", horizon=HORIZON, action_dim=ACTION_DIM, num_tokens=NUM_TOKENS, **SMALL
    )
    statistics = compute_statistics(lambda: [np.zeros((1, ACTION_DIM))], dim=ACTION_DIM)
    return ActionTokenizer(make_codec(config), actions, DataFacts(statistics))


def _sample(policy: VlmPolicy) -> tuple[Observations, Tokens, Tensor]:
    """Random observations, tokens and actions, an item of the batch for each of `TASKS`."""
    rng = np.random.default_rng(1)
    size = (len(TASKS), 1, *policy.spec.cameras[CAMERA], 3)
    observation: dict[str, Any] = {
        TASK: list(TASKS),
        STATE: rng.normal(size=(len(TASKS), 1, STATE_DIM)).astype(np.float32),
        f"{IMAGES}{CAMERA}": rng.integers(256, size=size, dtype=np.uint8),
    }
    read = policy.read(observation)
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
    began = read_clock(policy.device)
    keys = sample_keys(0, 1, torch.arange(len(observations))).to(policy.device)
    loss = policy.loss(observations, tokens, actions_BTA, SampleRandom(keys)).total
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    if not torch.isfinite(loss):
        raise OatkitError(f"the loss of {policy} is {float(loss)}: try --dtype float32")
    return read_clock(policy.device) - began


def _median_ms(run: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(REPEATS + 1):  # the first warms up
        began = read_clock(device)
        run()
        times.append(read_clock(device) - began)
    return 1000 * float(np.median(times[1:]))


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
