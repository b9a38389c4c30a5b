"""`oatkit vlm check`: load a backbone and check what must hold for policies on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.record_output import write_result
from oatkit.commands.text_output import titled
from oatkit.jobs.backbone_check import NUM_TOKENS, check_backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.types import BackboneCheck


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
    """Width of the flow expert that is checked with it."""
    device: DeviceFlag = "auto"
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write what was found as JSON."""
    loading: Annotated[BackboneOptions, arg(name="")] = BackboneOptions()


def run(options: CheckVlm, console: Console) -> int:
    """Returns 0 if everything holds, else 1."""
    device = announce_device(console, options.device)
    found = check_backbone(
        options.checkpoint,
        options.loading,
        image_size=options.image_size,
        expert_width=options.expert_width,
        device=device,
    )
    console.print(render_backbone(found))
    write_result(found, options.out, console)
    return 0 if all(invariant.holds for invariant in found.invariants) else 1


def render_backbone(found: BackboneCheck) -> Text:
    """Sizes and times, then what holds."""
    text = titled(
        found.checkpoint,
        f"{found.family}, {found.num_parameters:,} parameters, {found.num_trained:,} trained "
        f"with the expert, {found.context_slots} context slots",
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
