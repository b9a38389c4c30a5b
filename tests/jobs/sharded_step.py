"""What a sharded step of a policy holds at most, measured in two processes, beside its plan.

python -m tests.jobs.sharded_step BACKBONE PRECISION LORA_RANK OUT.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.processes import Case, _environment, _fork, _wait
from oatkit.jobs.backbone_check import make_trial_policy
from oatkit.jobs.training_plan import PlanSettings, _Counts, _way, trial_loss
from oatkit.policies import Policy
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.loading import load_backbone
from oatkit.train.shard import shard
from tests.nn.measured_memory import measured_peak

SAMPLES = 2


class Step(nn.Module):
    """A pass forward and the loss that it gives, which FSDP gathers weights for."""

    def __init__(self, policy: Policy, settings: PlanSettings) -> None:
        super().__init__()
        self.net = policy.net
        self._policy, self._settings = policy, settings

    def forward(self) -> Tensor:
        return trial_loss(self._policy, SAMPLES, self._settings.task_tokens)


def main() -> None:
    folder, precision, rank, out = sys.argv[1:]
    loading = BackboneOptions(
        lora_rank=int(rank),
        dtype=precision if int(rank) else "float32",  # type: ignore[arg-type]
    )
    settings = PlanSettings(
        gpus=2,
        batch=2 * SAMPLES,
        image_size=32,
        expert_width=64,
        horizon=8,
        precision=precision,  # type: ignore[arg-type]
    )

    def work(number: int) -> None:
        os.environ.update(_environment(Case("vlm-tc", "fsdp", 2), number, 29531))
        torch.distributed.init_process_group("gloo")
        policy = make_trial_policy(load_backbone(folder, loading), loading, settings.step, "vlm-tc")
        model = Step(policy, settings)
        is_bfloat16 = precision == "bfloat16"
        shard(model, policy.net.blocks, is_bfloat16=is_bfloat16)
        policy.net.train()

        def step() -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
                loss = model()
            loss.backward()

        step()
        model.zero_grad(set_to_none=True)
        peak = measured_peak(step)
        if number == 0:
            way = _way(_Counts(folder, settings, "vlm-tc", SAMPLES), loading, True, 1)
            planned = way.gradients + way.copies + way.activations
            Path(out).write_text(json.dumps({"measured": peak, "planned": planned}))

    logs = Path(out).parent
    _wait([_fork(lambda n=n: work(n), logs / f"rank-{n}.txt") for n in (0, 1)], logs)  # type: ignore[misc]


if __name__ == "__main__":
    main()
