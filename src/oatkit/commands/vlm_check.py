"""`oatkit vlm check`: load a backbone and check what must hold for policies on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.choices import ObjectiveName
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.record_output import write_result
from oatkit.commands.text_output import titled
from oatkit.jobs.backbone_check import NUM_TOKENS, TASKS, StepSettings, check_backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.types import BackboneCheck


@dataclass(frozen=True)
class CheckVlm:
    """Load a backbone, check every invariant, and measure training steps of the job that will run.

    Give the flags that the job will have; the batch is that of one device.

    Example:
        oatkit vlm check Qwen/Qwen3-VL-2B-Instruct --dtype bfloat16 --lora-rank 16
        oatkit vlm check google/paligemma2-3b-pt-224 --policy vlm-tc --batch-size 4
            --num-cameras 2 --save-memory
    """

    checkpoint: Annotated[Positional[str], arg(metavar="ID_OR_DIR")]
    """Folder or hub id."""
    policy: ObjectiveName = "vlm-tc"
    """Policy whose training step is measured."""
    device: DeviceFlag = "auto"
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write what was found as JSON."""
    settings: Annotated[StepSettings, arg(name="")] = StepSettings()
    loading: Annotated[BackboneOptions, arg(name="")] = BackboneOptions()


def run(options: CheckVlm, console: Console) -> int:
    """Returns 0 if everything holds, else 1."""
    device = announce_device(console, options.device)
    found = check_backbone(
        options.checkpoint,
        options.loading,
        options.settings,
        objective=options.policy,
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
        f"{_render_step(found)}\n"
        f"prefill of {len(TASKS)}: {found.prefill_ms:.1f} ms, one call for {NUM_TOKENS} tokens: "
        f"{found.suffix_ms:.1f} ms\n"
    )
    for invariant in found.invariants:
        mark, style = ("holds ", "green") if invariant.holds else ("BROKEN", "red")
        text.append(mark, style=style)
        text.append(f"  {invariant.name} ({invariant.value:.2g})\n")
    text.rstrip()
    return text


def _render_step(found: BackboneCheck) -> str:
    """What a training step takes."""
    step, gigabytes = found.step, f"{found.train_bytes / 1e9:.2f} GB"
    if step is None:
        return f"one training step of 2: {found.train_s:.2f} s, {gigabytes} at most"
    memory = f"{gigabytes} at most on {step.device}"
    if not step.device.startswith("cuda"):
        memory = f"{gigabytes} at most in this process, all that it did before included"
    return (
        f"a training step of {step.objective} with {step.batch_size} samples in "
        f"{step.precision}, AdamW included: {found.train_s:.2f} s, {memory}"
    )
