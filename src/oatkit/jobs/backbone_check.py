"""What must hold for policies on a vision-language backbone, and what they cost."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
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
from oatkit.policies import Policy, VlmConfig
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.presets import vlm_preset
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.tokenizers.kind_table import make_codec
from oatkit.train.optimizers import OPTIMIZERS
from oatkit.train.precision import resolve_precision, tensor_cores
from oatkit.train.train_config import Precision
from oatkit.types import BackboneCheck, Invariant, MeasuredStep, Schedule, Tokens
from oatkit.types.observation_keys import IMAGES, STATE, TASK

ACTION_DIM, STATE_DIM, NUM_TOKENS = 7, 8, 16
SMALL = {"width": 32, "num_layers": 1, "num_heads": 2}
TASKS = ("pick up the red cube", "put the bowl on the plate and close the drawer")
REPEATS = 3


@dataclass(frozen=True)
class StepSettings:
    """The training that will run, as far as it decides time and memory of a step."""

    batch_size: int | None = None
    """Number of samples of a step on this device, after --accumulate; by default the whole batch of
    the preset paper."""
    precision: Precision | None = None
    """Number format of the computation; by default what training takes: the launcher's, else
    bfloat16 on CUDA and float32 elsewhere."""
    expert_width: int = ExpertConfig.width
    """Width of the flow expert."""
    expert_layers: int | None = None
    """Number of layers of the flow expert; as many as the backbone has by default."""
    num_cameras: int = 1
    """Number of cameras."""
    history: int = 1
    """Number of frames that are observed, the current one included."""
    image_size: int = 224
    """Height and width of the images that are shown."""
    horizon: int = 32
    """Number of actions in a chunk."""

    def __post_init__(self) -> None:
        for name in ("num_cameras", "history", "image_size", "horizon"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}, expected at least 1")


def check_backbone(
    checkpoint: str,
    loading: BackboneOptions = BackboneOptions(),
    settings: StepSettings = StepSettings(),
    *,
    objective: str = "vlm-tc",
    device: Device = "auto",
) -> BackboneCheck:
    """Check what must hold for policies on a backbone, and measure a training step.

    An autoregressive and a co-trained policy are checked with two samples.

    Args:
        checkpoint: Folder or hub id of the backbone.
        loading: How the backbone is loaded and which of its weights are trained.
        settings: What a step is made of.
        objective: Objective of the policy whose training step is measured.
        device: Where to run: "auto", "cpu", "cuda", "cuda:1" or "mps".
    """
    place = resolve_device(device)
    make = partial(_policy, checkpoint, loading, settings, place)
    policy = make("vlm-ar")
    invariants, prefill_ms, suffix_ms, num_slots = _check_tokens(policy)
    del policy  # no two policies share the memory
    policy = make("vlm-tc")
    invariants += check_insulation(policy, *_sample(policy, len(TASKS)))
    policy.net.zero_grad(set_to_none=True)
    if objective != policy.kind:
        del policy
        policy = make(objective)
    step = _resolved(settings, policy, place)
    train_s, train_bytes = _measure_step(policy, step)
    return BackboneCheck(
        checkpoint=checkpoint,
        family=policy.net.backbone.family.name,
        num_parameters=sum(p.numel() for p in policy.net.backbone.parameters()),
        num_trained=sum(p.numel() for p in policy.net.parameters() if p.requires_grad),
        context_slots=num_slots,
        train_s=train_s,
        train_bytes=train_bytes,
        prefill_ms=prefill_ms,
        suffix_ms=suffix_ms,
        invariants=tuple(invariants),
        step=step,
    )


def _resolved(settings: StepSettings, policy: Policy, device: torch.device) -> MeasuredStep:
    """The step that is measured, with what is left to a default."""
    values = asdict(settings)
    del values["expert_layers"]
    if settings.batch_size is None:
        values["batch_size"] = vlm_preset("paper", policy.kind).train.batch_size
    values["precision"] = resolve_precision(settings.precision, policy.net, device)
    return MeasuredStep(objective=policy.kind, device=str(device), **values)


def _check_tokens(policy: Policy) -> tuple[list[Invariant], float, float, int]:
    """Invariants, milliseconds of a prefill and of a call, slots of the context."""
    observations, tokens, _ = _sample(policy, len(TASKS))
    found = []
    for schedule in (Schedule.tokenwise(NUM_TOKENS), Schedule.pow2(NUM_TOKENS)):
        found += check_tokens(policy, observations, tokens.ids, schedule)
    with torch.inference_mode():
        context = policy.net.encode(observations)
        prefill_s = _median_s(lambda: policy.net.encode(observations), policy.device)
        suffix_s = _median_s(
            lambda: policy.net.logits(tokens.ids, Schedule.one_shot(NUM_TOKENS), context),
            policy.device,
        )
    return found, 1000 * prefill_s, 1000 * suffix_s, context.is_seen.shape[1]


def _policy(
    checkpoint: str,
    loading: BackboneOptions,
    settings: StepSettings,
    device: torch.device,
    objective: str,
) -> Policy:
    from oatkit.policies.vlm.backbones.loading import load_backbone

    backbone = load_backbone(checkpoint, loading)
    torch.manual_seed(0)
    policy = make_trial_policy(backbone, loading, settings, objective)
    return policy if loading.device_map else policy.to(device)


def make_trial_policy(
    backbone: Backbone, loading: BackboneOptions, settings: StepSettings, objective: str
) -> Policy:
    """An untrained policy on a backbone, for a robot with the sizes of the settings."""
    expert = ExpertConfig(width=settings.expert_width, num_layers=settings.expert_layers)
    config = VlmConfig(objective=objective, expert=expert, backbone=loading)
    unit = Normalizer("identity", np.zeros(STATE_DIM), np.ones(STATE_DIM))
    size = (settings.image_size, settings.image_size)
    cameras = {f"camera_{number}": size for number in range(settings.num_cameras)}
    spec = ObservationSpec(settings.history, unit, cameras, TASKS)
    actions = Normalizer("identity", np.zeros(ACTION_DIM), np.ones(ACTION_DIM))
    tokenizer = _tokenizer(actions, settings.horizon)
    return Policy(VlmModel.make(config, backbone, tokenizer, spec, actions))


def _tokenizer(actions: Normalizer, horizon: int) -> ActionTokenizer:
    """A tokenizer of the paper's vocabulary and length; nothing here depends on its weights."""
    config = make_config(
        "oat-pow2", horizon=horizon, action_dim=ACTION_DIM, num_tokens=NUM_TOKENS, **SMALL
    )
    statistics = compute_statistics(lambda: [np.zeros((1, ACTION_DIM))], dim=ACTION_DIM)
    return ActionTokenizer(make_codec(config), actions, DataFacts(statistics))


def _sample(policy: Policy, count: int) -> tuple[Observations, Tokens, Tensor]:
    """Random observations, tokens and actions; the items of the batch take turns with `TASKS`."""
    rng = np.random.default_rng(1)
    history = policy.spec.history
    observation: dict[str, Any] = {
        TASK: [TASKS[number % len(TASKS)] for number in range(count)],
        STATE: rng.normal(size=(count, history, STATE_DIM)).astype(np.float32),
    }
    for camera, size in policy.spec.cameras.items():
        shape = (count, history, *size, 3)
        observation[f"{IMAGES}{camera}"] = rng.integers(256, size=shape, dtype=np.uint8)
    read = policy.read(observation)
    chunks = rng.normal(size=(count, policy.tokenizer.horizon, ACTION_DIM)).cumsum(axis=1) / 8
    actions_BTA = torch.from_numpy(chunks.astype(np.float32)).to(policy.device)
    ids_BK = rng.integers(policy.tokenizer.vocab_size, size=(count, NUM_TOKENS))
    tokens = Tokens.full(torch.from_numpy(ids_BK).to(policy.device))
    return read.to(policy.device), tokens, actions_BTA


def _measure_step(policy: Policy, step: MeasuredStep) -> tuple[float, int]:
    """Seconds of a training step as the loop does it, and the most memory that steps took."""
    observations, tokens, actions_BTA = _sample(policy, step.batch_size)
    trained = [p for p in policy.net.parameters() if p.requires_grad]
    recipe = vlm_preset("paper", policy.kind).train
    optimizer = OPTIMIZERS[recipe.optimizer].make(
        trained, lr=1e-5, betas=recipe.betas, weight_decay=recipe.weight_decay
    )
    keys = sample_keys(0, 1, torch.arange(len(observations))).to(policy.device)
    is_bfloat16 = step.precision == "bfloat16"

    def run() -> None:
        with torch.autocast(policy.device.type, torch.bfloat16, enabled=is_bfloat16):
            loss = policy.loss(observations, tokens, actions_BTA, SampleRandom(keys)).total
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trained, recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not torch.isfinite(loss):
            raise OatkitError(f"the loss of {policy} is {loss.item()}: try --precision float32")

    policy.net.train()
    if policy.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(policy.device)
    with tensor_cores(policy.device):
        seconds = _median_s(run, policy.device)
    return seconds, _memory(policy.device)


def _median_s(run: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(REPEATS + 1):  # the first warms up
        began = read_clock(device)
        run()
        times.append(read_clock(device) - began)
    return float(np.median(times[1:]))


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
