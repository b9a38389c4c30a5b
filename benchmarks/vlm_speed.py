"""How long a vision-language policy takes on the CPU: prefill, one call, a chunk in every way.

    python -m benchmarks.vlm_speed

The backbone has about 100M parameters with random weights and sees one image and a state, batch 1;
this takes a few minutes. "Recomputed" runs context and tokens again for every token, as generation
without a cache does. The last table is a roofline for published backbones: what a call computes and
reads, from counts that were measured on the small backbone, over the rates in the data sheets of
two cards.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from benchmarks.record import write_result
from benchmarks.timing import Job, median_ms_in_turns
from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.nn.flow_expert import FlowExpert
from oatkit.policies import Policy, VlmConfig
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone import Context
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import Family, ScratchSize
from oatkit.policies.vlm.backbones.family_table import family_named
from oatkit.policies.vlm.backbones.loading import load_backbone, write_scratch
from oatkit.policies.vlm.backbones.published import PUBLISHED
from oatkit.policies.vlm.backbones.smolvlm import SmolVLM
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.tokenizers import ActionTokenizer, make_codec, make_config
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.types import Schedule
from oatkit.types.observation_keys import IMAGES, STATE, TASK

SEED = 0
HORIZON, ACTION_DIM, STATE_DIM, NUM_TOKENS = 32, 7, 8, 16
IMAGE_SIZE = 224
CAMERA_SIZE = (480, 640)
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


REAL = {
    "PaliGemma 2 3B": PUBLISHED["google/paligemma2-3b-pt-224"],
    "Qwen3-VL 2B": PUBLISHED["Qwen/Qwen3-VL-2B-Instruct"],
}
"""Published checkpoints, by the names that tables have for them."""
PATCHES = {"PaliGemma 2 3B": (256, 256), "Qwen3-VL 2B": (196, 49)}
"""Patches of an image of 224 x 224, and slots of the context that it takes."""
CARDS = {"A100 80GB": (312e12, 2.04e12), "RTX 4090": (165e12, 1.01e12)}
"""Dense bfloat16 FLOP/s and bytes/s of the data sheet."""
FACTOR = "flops_per_parameter_slot"
TEXT_SLOTS = 24
BYTES = 2


@dataclass(frozen=True)
class RealSize:
    """Parameters of a published backbone and of the expert that goes with it."""

    whole: int
    layers: int
    """Layers of the language model; embeddings are looked up, not multiplied."""
    vision: int
    expert: int

    @classmethod
    def of(cls, name: str) -> RealSize:
        """Counts in models without weights."""
        family, model, expert = without_weights(name)
        language = family.language_model(model.model)
        return cls(
            num_parameters(model),
            num_parameters(language.get_submodule("layers")),
            sum(num_parameters(part) for part in family.vision_modules(model.model)),
            num_parameters(expert),
        )


def without_weights(name: str) -> tuple[Family, Any, FlowExpert]:
    """The family of a published backbone, its model and the expert that goes with it, on the meta
    device."""
    family = family_named(REAL[name].family)
    with torch.device("meta"):
        config = family.model_class.config_class(**REAL[name].config)
        model = family.model_class._from_config(config)
        text = model.config.get_text_config()
        expert = FlowExpert(
            ACTION_DIM,
            width=ExpertConfig().width,
            num_layers=text.num_hidden_layers,
            num_heads=text.num_attention_heads,
            num_kv_heads=text.num_key_value_heads,
            head_dim=text.head_dim,
        )
    return family, model, expert


def main() -> None:
    torch.manual_seed(SEED)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in ("paligemma2", "qwen3-vl"):
            checkpoint = write_scratch(family, Path(folder) / family, SIZE, [TEXT], SEED)
            results[family] = measure(checkpoint)
    factor = max(found[FACTOR] for found in results.values())
    results["predicted"] = {name: predict(name, factor) for name in REAL}
    results["smolvlm_image"] = rounded(smolvlm_image_ms())
    settings = {
        "tokens": NUM_TOKENS,
        "image": IMAGE_SIZE,
        "threads": torch.get_num_threads(),
        "euler_steps": ExpertConfig().num_steps,
    }
    write_result("vlm_speed", seed=SEED, settings=settings, results=results)


def measure(checkpoint: Path) -> dict[str, Any]:
    spoken, taught = make_policy(checkpoint, "vlm-ar"), make_policy(checkpoint, "vlm-tc")
    observations = observe(spoken)
    factor = flops_factor(spoken, observations)
    with torch.inference_mode():
        return dict(rounded(timed(spoken, taught, observations) | {FACTOR: factor}))


def timed(spoken: Policy, taught: Policy, observations: Observations) -> dict[str, Any]:
    """Milliseconds and ratios."""
    context, read = spoken.net.encode(observations), taught.net.encode(observations)
    noise = torch.randn(1, HORIZON, ACTION_DIM)
    works: dict[str, Job] = {
        "prefill": lambda: spoken.net.encode(observations),
        "token-wise, recomputed, with prefill": lambda: recompute(spoken, observations),
        "co-trained flow": lambda: taught.net.flow(read, noise),
    }
    works |= {f"call of {count}": partial(one_call, spoken, context, count) for count in (1, 4, 16)}
    works |= {way: partial(speak, spoken, context, schedule) for way, schedule in SCHEDULES.items()}
    ms = median_ms_in_turns(works, REPEATS)
    recomputed = ms["token-wise, recomputed, with prefill"]
    return {
        "parameters": num_parameters(spoken.net.backbone),
        "context_slots": context.is_seen.shape[1],
        "ms": ms,
        "pow2_speedup": ms["token-wise"] / ms["power of two"],
        "cache_speedup": recomputed / (ms["token-wise"] + ms["prefill"]),
    }


def make_policy(checkpoint: Path, objective: str) -> Policy:
    unit = Normalizer("identity", np.zeros(ACTION_DIM), np.ones(ACTION_DIM))
    state = Normalizer("identity", np.zeros(STATE_DIM), np.ones(STATE_DIM))
    config = make_config("oat-pow2", horizon=HORIZON, action_dim=ACTION_DIM, num_tokens=NUM_TOKENS)
    statistics = compute_statistics(lambda: [np.zeros((1, ACTION_DIM))], dim=ACTION_DIM)
    tokenizer = ActionTokenizer(make_codec(config), unit, DataFacts(statistics))
    spec = ObservationSpec(1, state, {"front": (IMAGE_SIZE, IMAGE_SIZE)}, (TEXT,))
    backbone = load_backbone(str(checkpoint), BackboneOptions())
    vlm = VlmConfig(objective, expert=ExpertConfig(width=256))
    return Policy(VlmModel.make(vlm, backbone, tokenizer, spec, unit))


def observe(policy: Policy) -> Observations:
    rng = np.random.default_rng(SEED)
    size = (1, 1, IMAGE_SIZE, IMAGE_SIZE, 3)
    observation = {
        TASK: [TEXT],
        STATE: rng.normal(size=(1, 1, STATE_DIM)).astype(np.float32),
        f"{IMAGES}front": rng.integers(256, size=size, dtype=np.uint8),
    }
    return policy.read(observation)


def one_call(policy: Policy, context: Context, num_tokens: int) -> None:
    schedule = Schedule.one_shot(num_tokens)
    policy.net.logits(torch.zeros(1, num_tokens, dtype=torch.int64), schedule, context)


def speak(policy: Policy, context: Context, schedule: Schedule) -> torch.Tensor:
    generation = policy.net.start(context, 1, schedule.num_tokens)
    uniform = torch.rand(1, schedule.num_tokens)
    stages = policy.net.pack(schedule, policy.device).stages
    found = generate_stages(generation, stages, uniform, mask_id=policy.net.mask_id)
    return torch.cat([stage.ids for stage in found], dim=1)


def recompute(policy: Policy, observations: Observations) -> None:
    """Token by token without a cache."""
    ids = torch.zeros(1, NUM_TOKENS, dtype=torch.int64)
    for number in range(1, NUM_TOKENS + 1):
        context = policy.net.encode(observations)
        logits = policy.net.logits(ids[:, :number], Schedule.tokenwise(number), context)
        ids[:, number - 1] = logits[:, -1].argmax(dim=-1)


def smolvlm_image_ms() -> dict[str, float]:
    """Milliseconds to prepare an image as SmolVLM2 is published, and without its way by 2048."""
    published = SmolVLMImageProcessorPil(
        size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}
    )
    image = np.random.default_rng(SEED).integers(256, size=(*CAMERA_SIZE, 3), dtype=np.uint8)
    options = SmolVLM().image_options()
    works: dict[str, Job] = {
        "enlarged first": lambda: published([image], **options | {"do_resize": True}),
        "as policies read it": lambda: published([image], **options),
    }
    return median_ms_in_turns(works, REPEATS)


def flops_factor(policy: Policy, observations: Observations) -> float:
    """FLOPs of a prefill over 2 x parameters x slots of the language model; vision apart."""
    backbone = policy.net.backbone
    language = backbone.family.language_model(backbone.model)
    layers = num_parameters(language.get_submodule("layers"))
    # with gradients, so that torch computes, and counts, everything
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


def predict(name: str, factor: float) -> dict[str, Any]:
    """Milliseconds of a roofline, and the number of calls, of every way to a chunk."""
    size, (num_patches, image_slots) = RealSize.of(name), PATCHES[name]
    slots = image_slots + TEXT_SLOTS + 1
    found: dict[str, Any] = {"parameters": asdict(size), "context_slots": slots}
    steps = ExpertConfig().num_steps
    for card, (flop_rate, byte_rate) in CARDS.items():

        def taken(
            parameters: int,
            num_slots: int,
            flop_rate: float = flop_rate,
            byte_rate: float = byte_rate,
        ) -> float:
            flops = factor * 2 * parameters * num_slots
            return 1e3 * max(flops / flop_rate, BYTES * parameters / byte_rate)

        prefill = taken(size.layers, slots) + taken(size.vision, num_patches)
        chunk = {
            way: prefill + sum(taken(size.layers, g) for g in schedule.block_sizes)
            for way, schedule in SCHEDULES.items()
        }
        chunk["co-trained flow"] = prefill + steps * taken(size.expert, HORIZON)
        found[card] = rounded({"prefill_ms": prefill, "chunk_ms": chunk})
    found["calls"] = {way: schedule.calls for way, schedule in SCHEDULES.items()}
    found["calls"]["co-trained flow"] = steps
    return found


def num_parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
