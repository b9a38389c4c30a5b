"""`oatkit vlm plan`: what a training on GPUs will take, before there are any."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import arg

from oatkit.commands.choices import ObjectiveName
from oatkit.commands.text_output import table, titled
from oatkit.jobs.training_plan import PlanSettings, plan_training, smallest_gpu
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.storage.records import record_to_json
from oatkit.types import PlannedWay, TrainingPlan


@dataclass(frozen=True)
class PlanVlm:
    """Count memory, operations and samples per second of a training on GPUs, on any machine.

    The network is built without weights, from a folder with a config.json or from the sizes of a
    published checkpoint; nothing is downloaded for these.

    Example:
        oatkit vlm plan --backbone google/paligemma2-3b-pt-224 --gpus 8 --gpu a100-80 --batch 32
        oatkit vlm plan --backbone Qwen/Qwen3-VL-2B-Instruct --policy vlm-ar --gpus 1
            --gpu rtx4090 --batch 8 --lora-rank 16 --dtype bfloat16
    """

    backbone: Annotated[str, arg(metavar="ID_OR_DIR")]
    """Folder with a config.json, or hub id."""
    policy: ObjectiveName = "vlm-tc"
    """Policy that is trained."""
    json: bool = False
    """Print the plan as JSON, and nothing else."""
    settings: Annotated[PlanSettings, arg(name="")] = PlanSettings()
    loading: Annotated[BackboneOptions, arg(name="")] = BackboneOptions()


def run(options: PlanVlm, console: Console) -> int:
    """Returns 0 if the training fits, else 1."""
    plan = plan_training(
        options.backbone, options.settings, options.loading, objective=options.policy
    )
    if options.json:
        sys.stdout.write(json.dumps(record_to_json(plan), indent=2) + "\n")
    else:
        console.print(render_plan(plan), soft_wrap=True)
    return 0 if plan.asked.fits else 1


def render_plan(plan: TrainingPlan) -> Text:
    """Sizes, a table of the ways to train, what the loader must feed, and whether it fits."""
    text = titled(
        plan.backbone,
        f"{plan.family}, {plan.objective}: {plan.num_parameters:,} parameters and "
        f"{plan.num_more:,} of heads, {plan.context_slots} context slots",
    )
    text.append(
        f"{plan.num_gpus} x {plan.gpu}, {plan.batch_size} samples a step, computed in "
        f"{plan.precision}; GB on each GPU, TFLOP of a step on all:\n"
    )
    shown = [plan.asked, *(way for way in plan.ways if way != plan.asked)]
    heading = (
        *("", "trained", "weights", "gradients", "moments", "copies", "activations", "total"),
        *("fits", "TFLOP", "samples/s"),
    )
    text.append(table([heading, *(_row(way, plan) for way in shown)]))
    text.append(_feeding(plan))
    text.append(_verdict(plan))
    return text


def _row(way: PlannedWay, plan: TrainingPlan) -> tuple[str, ...]:
    sizes = (way.weights, way.gradients, way.optimizer, way.copies, way.activations, way.total)
    return (
        ("> " if way is plan.asked else "") + way_name(way, plan.num_gpus),
        f"{way.num_trained / 1e6:,.0f}M",
        *(f"{size / 1e9:.1f}" for size in sizes),
        "yes" if way.fits else "no",
        f"{way.step_flops / 1e12:,.1f}",
        f"{way.samples_per_s:,.0f}",
    )


def way_name(way: PlannedWay, num_gpus: int) -> str:
    """A way to train in a few words."""
    alone = "one GPU" if num_gpus == 1 else "DDP"
    parts = ["FSDP" if way.is_sharded else alone]
    if way.lora_rank:
        parts.append(f"LoRA {way.lora_rank}")
    if way.saves_memory:
        parts.append("checkpointing")
    if way.accumulate > 1:
        parts.append(f"{way.accumulate} parts")
    return ", ".join(parts)


def _feeding(plan: TrainingPlan) -> str:
    asked = plan.asked
    images = asked.samples_per_s * plan.images
    return (
        f"a step of the marked row: {asked.step_s:.2f} s at {plan.utilization:.0%} of "
        f"{plan.gpu_flops / 1e12:,.0f} TFLOP/s, communication and optimizer left out; the loader "
        f"must then feed {asked.samples_per_s:,.0f} samples/s ({images:,.0f} images/s)\n"
    )


def _verdict(plan: TrainingPlan) -> str:
    asked, usable = plan.asked, f"{plan.usable_bytes / 1e9:.0f} GB"
    needs = f"{asked.total / 1e9:.1f} GB"
    if asked.fits:
        return f"it fits: {needs} of the {usable} that {plan.gpu} leaves to training"
    start = f"it does not fit: {needs}, and {plan.gpu} leaves {usable} to training; "
    if plan.changed is not None:
        fitting = f"{plan.changed.total / 1e9:.1f} GB"
        return f"{start}the cheapest change that makes it fit ({fitting}): {plan.change}"
    least = min((asked, *plan.ways), key=lambda way: way.total)
    larger = smallest_gpu(least.total)
    advice = "use more GPUs or a smaller backbone" if larger is None else f"try --gpu {larger.name}"
    return f"{start}no flag makes it fit, {way_name(least, plan.num_gpus)} takes least: {advice}"
