"""A plan is written and read again."""

from __future__ import annotations

from oatkit.storage.records import record_from_json, record_to_json
from oatkit.types import PlannedWay, TrainingPlan

SIZES = {"weights": 4, "gradients": 4, "optimizer": 8, "copies": 2, "activations": 3}
WAY = PlannedWay(
    is_sharded=False,
    saves_memory=True,
    lora_rank=16,
    dtype="bfloat16",
    accumulate=2,
    num_trained=1,
    **SIZES,
    total=21,
    fits=True,
    step_flops=100,
    step_s=0.5,
    samples_per_s=64.0,
)


def test_a_plan_survives_json() -> None:
    plan = TrainingPlan(
        backbone="b",
        family="smolvlm",
        objective="vlm-ar",
        num_parameters=3,
        num_more=1,
        context_slots=7,
        images=2,
        gpu="a100-80",
        num_gpus=2,
        gpu_bytes=80e9,
        usable_bytes=72e9,
        gpu_flops=312e12,
        utilization=0.4,
        batch_size=32,
        precision="bfloat16",
        asked=WAY,
        ways=(WAY, WAY),
        change=None,
        changed=None,
    )
    values = record_to_json(plan)
    assert (values["schema"], values["version"]) == ("oatkit/training-plan", 1)
    assert record_from_json(TrainingPlan, values, "plan.json") == plan
