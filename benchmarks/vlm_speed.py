"""Time of a vision-language policy on the CPU: prefill, one call, a chunk by every way there is.

    python -m benchmarks.vlm_speed

A backbone of about 100M parameters with random weights, one image and a state, batch 1.
"Recomputed" runs context and tokens anew for every token, as generation without a cache does. The
last table is a roofline for backbones of 2B and 3B parameters: what a call computes and reads, from
counts that were measured on the small backbone, over the rates in the data sheets of two cards.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.record import write_result
from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.policies import VlmConfig, VlmPolicy
from oatkit.policies.backbones.backbone import Context
from oatkit.policies.backbones.family import ScratchSize
from oatkit.policies.backbones.loading import load_backbone, write_scratch
from oatkit.policies.backbones.options import BackboneOptions
from oatkit.policies.bar import generate
from oatkit.policies.observation import IMAGES, STATE, TASK, Observations, ObservationSpec
from oatkit.policies.vlm_config import ExpertConfig, Objective
from oatkit.tokenizers import ActionTokenizer, make_codec, make_config
from oatkit.tokenizers.tokenizer import DataFacts
from oatkit.types import Schedule

SEED = 0
HORIZON, ACTION_DIM, STATE_DIM, NUM_TOKENS = 32, 7, 8, 16
IMAGE_SIZE = 224
REPEATS = 5
TEXT = "pick up the red cube and put it into the drawer"
SIZE = ScratchSize(
    width=768,
    num_layers=10,
    num_heads=12,
    num_kv_heads=4,
    head_dim=64,
    vision_width=256,
    vision_layers=4,
    image_size=IMAGE_SIZE,
    patch_size=16,
)
SCHEDULES = {
    "token-wise": Schedule.tokenwise(NUM_TOKENS),
    "power of two": Schedule.pow2(NUM_TOKENS),
    "one-shot": Schedule.one_shot(NUM_TOKENS),
}


@dataclass(frozen=True)
class RealSize:
    """Of a published backbone, from its config."""

    width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_width: int
    vision_parameters: float
    image_slots: int
    patches: int

    @property
    def parameters(self) -> int:
        """Of the layers of the language model; embeddings are looked up, not multiplied."""
        attention = self.width * self.head_dim * 2 * (self.num_heads + self.num_kv_heads)
        return self.num_layers * (attention + 3 * self.width * self.mlp_width)


REAL = {
    "paligemma2 3B": RealSize(2304, 26, 8, 4, 256, 9216, 0.41e9, 256, 256),
    "qwen3-vl 2B": RealSize(2048, 28, 16, 8, 128, 6144, 0.41e9, 49, 196),
}
CARDS = {"A100 80GB": (312e12, 2.04e12), "RTX 4090": (165e12, 1.01e12)}
"""Dense bfloat16 FLOP/s and bytes/s of the data sheet."""
TEXT_SLOTS = 24
BYTES = 2
EXPERT_PARAMETERS = 0.3e9


def main() -> None:
    torch.manual_seed(SEED)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in ("paligemma2", "qwen3-vl"):
            checkpoint = write_scratch(family, Path(folder) / family, SIZE, [TEXT], SEED)
            results[family] = measure(checkpoint)
    factor = max(found["flops_per_parameter_slot"] for found in results.values())
    results["predicted"] = {name: predict(size, factor) for name, size in REAL.items()}
    settings = {
        "tokens": NUM_TOKENS,
        "image": IMAGE_SIZE,
        "threads": torch.get_num_threads(),
        "euler_steps": ExpertConfig().num_steps,
    }
    write_result("vlm_speed", seed=SEED, settings=settings, results=results)


@torch.inference_mode()
def measure(checkpoint: Path) -> dict[str, Any]:
    found = measure_tokens(make_policy(checkpoint, "vlm-ar"))
    taught = make_policy(checkpoint, "vlm-tc")
    context = taught.net.encode(observe(taught))
    noise = torch.randn(1, HORIZON, ACTION_DIM)
    chunks = found["chunk_after_prefill_ms"]
    chunks["co-trained flow"] = ms(lambda: taught.net.flow(context, noise))
    found["pow2_speedup"] = chunks["token-wise"] / chunks["power of two"]
    cached = chunks["token-wise"] + found["prefill_ms"]
    found["cache_speedup"] = found["token-wise, recomputed, with prefill_ms"] / cached
    return dict(rounded(found))


def measure_tokens(policy: VlmPolicy) -> dict[str, Any]:
    observations = observe(policy)
    context = policy.net.encode(observations)
    return {
        "parameters": sum(p.numel() for p in policy.net.backbone.parameters()),
        "context_slots": context.is_seen.shape[1],
        "prefill_ms": ms(lambda: policy.net.encode(observations)),
        "call_ms": {
            str(count): ms(partial(one_call, policy, context, count)) for count in (1, 4, 16)
        },
        "chunk_after_prefill_ms": {
            name: ms(partial(speak, policy, context, schedule))
            for name, schedule in SCHEDULES.items()
        },
        "token-wise, recomputed, with prefill_ms": ms(
            lambda: recompute(policy, observations), repeats=2
        ),
        "flops_per_parameter_slot": flops_factor(policy, observations),
    }


def make_policy(checkpoint: Path, objective: Objective) -> VlmPolicy:
    unit = Normalizer("identity", np.zeros(ACTION_DIM), np.ones(ACTION_DIM))
    state = Normalizer("identity", np.zeros(STATE_DIM), np.ones(STATE_DIM))
    config = make_config("oat-pow2", horizon=HORIZON, action_dim=ACTION_DIM, num_tokens=NUM_TOKENS)
    statistics = compute_statistics(lambda: [np.zeros((1, ACTION_DIM))], dim=ACTION_DIM)
    tokenizer = ActionTokenizer(make_codec(config), unit, DataFacts(statistics))
    spec = ObservationSpec(1, state, {"front": (IMAGE_SIZE, IMAGE_SIZE)}, (TEXT,))
    backbone = load_backbone(str(checkpoint), BackboneOptions())
    vlm = VlmConfig(objective, expert=ExpertConfig(width=256))
    return VlmPolicy.make(vlm, backbone, tokenizer, spec, unit)


def observe(policy: VlmPolicy) -> Observations:
    rng = np.random.default_rng(SEED)
    size = (1, 1, IMAGE_SIZE, IMAGE_SIZE, 3)
    observation = {
        TASK: [TEXT],
        STATE: rng.normal(size=(1, 1, STATE_DIM)).astype(np.float32),
        f"{IMAGES}front": rng.integers(256, size=size, dtype=np.uint8),
    }
    return policy.read(observation)[0]


def one_call(policy: VlmPolicy, context: Context, num_tokens: int) -> None:
    schedule = Schedule.one_shot(num_tokens)
    policy.net.logits(torch.zeros(1, num_tokens, dtype=torch.int64), schedule, context)


def speak(policy: VlmPolicy, context: Context, schedule: Schedule) -> torch.Tensor:
    feed = policy.net.start(context, schedule)
    uniform = torch.rand(1, schedule.num_tokens)
    stages = generate(feed, schedule, uniform, mask_id=policy.net.mask_id)
    return torch.cat([stage.ids for stage in stages], dim=1)


def recompute(policy: VlmPolicy, observations: Observations) -> None:
    """Token by token without a cache."""
    ids = torch.zeros(1, NUM_TOKENS, dtype=torch.int64)
    for number in range(1, NUM_TOKENS + 1):
        context = policy.net.encode(observations)
        logits = policy.net.logits(ids[:, :number], Schedule.tokenwise(number), context)
        ids[:, number - 1] = logits[:, -1].argmax(dim=-1)


def flops_factor(policy: VlmPolicy, observations: Observations) -> float:
    """FLOPs of a prefill over 2 x parameters x slots of the language model; vision apart."""
    backbone = policy.net.backbone
    language = backbone.family.language_model(backbone.model)
    layers = sum(p.numel() for p in language.get_submodule("layers").parameters())
    with torch.inference_mode(mode=False), torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            context = policy.net.encode(observations)
        counts = counter.get_flop_counts()
    whole = sum(counts["Global"].values())
    seen = sum(
        sum(ops.values())
        for name, ops in counts.items()
        if name.endswith(("SiglipVisionModel", "Qwen3VLVisionModel"))
    )
    return float((whole - seen) / (2 * layers * context.is_seen.shape[1]))


def predict(size: RealSize, factor: float) -> dict[str, Any]:
    """Milliseconds of a roofline, and calls, of every way to a chunk."""
    slots = size.image_slots + TEXT_SLOTS + 1
    found: dict[str, Any] = {"language_parameters": size.parameters, "context_slots": slots}
    for card, (flop_rate, byte_rate) in CARDS.items():

        def taken(
            parameters: float,
            num_slots: int,
            flop_rate: float = flop_rate,
            byte_rate: float = byte_rate,
        ) -> float:
            flops = factor * 2 * parameters * num_slots
            return 1e3 * max(flops / flop_rate, BYTES * parameters / byte_rate)

        prefill = taken(size.parameters, slots) + taken(size.vision_parameters, size.patches)
        rows = {
            name: {
                "calls": schedule.calls,
                "ms": prefill + sum(taken(size.parameters, g) for g in schedule.block_sizes),
            }
            for name, schedule in SCHEDULES.items()
        }
        steps = ExpertConfig().num_steps
        flow = prefill + steps * taken(EXPERT_PARAMETERS, HORIZON)
        rows["co-trained flow"] = {"calls": steps, "ms": flow}
        found[card] = rounded({"prefill_ms": prefill, "chunk": rows})
    return found


def ms(work: Callable[[], object], repeats: int = REPEATS) -> float:
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - began))
    return median(times)


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
