"""Bytes that training a published vision-language backbone takes, counted without a download.

    python -m benchmarks.vlm_memory

The models are built on the meta device, which holds shapes and no numbers, with the flow expert of
width 1024, the token embeddings and LoRA adapters of rank 16. A trained parameter takes 4 bytes as
a weight, 4 as a gradient and 8 as moments of AdamW. Autocast keeps a bfloat16 copy of each float32
matrix that is multiplied. DDP copies gradients into buckets unless, as in `train/loop.py`, they are
views of them. FSDP shares all of this, and gathers what is outside of layers, and the last layer of
the language model, for the whole step. Activations come on top; `oatkit vlm check` measures them on
a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn

from benchmarks.markdown import table
from benchmarks.record import write_result
from benchmarks.vlm_speed import REAL, STATE_DIM, without_weights
from oatkit.policies.vlm.vlm_config import ExpertConfig

RANK = 16
DEVICES = 8
ACTION_TOKENS = 1001
"""Tokens of `oat-pow2`, 8 x 5 x 5 x 5, and the mask."""
WEIGHT, GRADIENT, MOMENTS, HALF = 4, 4, 8, 2
"""Bytes of a number: float32, and bfloat16."""


@dataclass(frozen=True)
class Counts:
    """Numbers of parameters of a policy on a backbone."""

    backbone: int
    """All parameters of vision tower and language model; the head for text is not loaded."""
    matrices: int
    """Those of them that are multiplied, so that autocast copies them."""
    outside: int
    """Those of them that FSDP keeps gathered: embeddings, projections, the last language layer."""
    largest_layer: int
    adapters: int
    tokens: int
    """Embeddings of action tokens, and the projection of the state."""
    expert: int

    @classmethod
    def of(cls, name: str) -> Counts:
        """Counts in a model without weights."""
        family, whole, expert = without_weights(name)
        model = whole.model
        with torch.device("meta"):
            backbone = count([model])
            multiplied = (nn.Linear, nn.Conv2d, nn.Conv3d)
            matrices = count(module for module in model.modules() if isinstance(module, multiplied))
            language = family.language_model(model)
            # as `VlmNet.blocks`: the last layer of the language model stays gathered
            *layers, _ = language.get_submodule("layers").children()
            layers += family.vision_layers(model)
            outside, largest = backbone - count(layers), max(count([layer]) for layer in layers)
            adapters = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
            inject_adapter_in_model(adapters, language)
        width = model.config.get_text_config().hidden_size
        return cls(
            backbone=backbone,
            matrices=matrices,
            outside=outside,
            largest_layer=largest,
            adapters=count([model]) - backbone,
            tokens=(ACTION_TOKENS + STATE_DIM + 1) * width,
            expert=count([expert]),
        )


def count(modules: Iterable[nn.Module]) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def main() -> None:
    results = {}
    for name in REAL:
        counts = Counts.of(name)
        objectives = {"vlm-ar": 0, "vlm-tc": counts.expert}
        found = {objective: gigabytes(counts, expert) for objective, expert in objectives.items()}
        results[name] = {"parameters": asdict(counts), "gigabytes": found}
    settings = {"rank": RANK, "devices": DEVICES, "expert_width": ExpertConfig().width}
    write_result("vlm_memory", seed=0, settings=settings, results=results)


def gigabytes(counts: Counts, expert: int) -> dict[str, float]:
    """What each way to train takes on one device, in units of 10^9 bytes, without activations."""
    own = counts.tokens + expert
    trained, adapted = counts.backbone + own, counts.adapters + own
    state = WEIGHT + GRADIENT + MOMENTS
    copies = HALF * (counts.matrices + expert)
    whole = state * trained + copies
    # gathered weight and its gradient in bfloat16, and the gradient in float32 to be averaged
    gathered = HALF + HALF + GRADIENT
    layers = gathered * counts.largest_layer + HALF * counts.largest_layer  # the next one is ahead
    sharded = state * trained / DEVICES + gathered * (counts.outside + counts.tokens) + layers
    lora = state * adapted + HALF * (counts.backbone + counts.adapters + expert)
    found = {
        "weights": WEIGHT * trained,
        "gradients": GRADIENT * trained,
        "moments": MOMENTS * trained,
        "autocast copies": copies,
        "all": whole,
        "DDP buckets": GRADIENT * trained,
        "all, FSDP": sharded,
        "moving average": WEIGHT * trained,
        "LoRA": lora,
        "moving average of LoRA": WEIGHT * adapted,
        "acting": HALF * trained,
    }
    return {name: round(value / 1e9, 2) for name, value in found.items()}


ROWS = {
    "all": "all parameters, `--precision bfloat16`: one device, or each with DDP",
    "DDP buckets": "what DDP would add if gradients were not views of its buckets",
    "all, FSDP": f"all parameters with FSDP over {DEVICES} devices, each",
    "moving average": "added by `--ema`; FSDP shares it",
    "LoRA": f"`--dtype bfloat16 --lora-rank {RANK} --precision bfloat16`",
    "acting": "acting in bfloat16",
}
"""Rows of the table in the docs."""


def memory_table(results: dict[str, Any]) -> str:
    """The table of `docs/vlm.md`, in GB."""
    columns = [(name, objective) for name in results for objective in results[name]["gigabytes"]]
    headings = ("GB without activations", *(f"{name}, `{kind}`" for name, kind in columns))
    rows = [
        (title, *(f"{results[name]['gigabytes'][kind][row]:.1f}" for name, kind in columns))
        for row, title in ROWS.items()
    ]
    return table(headings, rows)


if __name__ == "__main__":
    main()
