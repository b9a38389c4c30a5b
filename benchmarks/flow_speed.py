"""How long the Euler steps of a flow expert take on the CPU, by what is computed once.

    python -m benchmarks.flow_speed

The backbone, the expert and the observation are those of `vlm_speed`; the prefill is not counted.
The three ways take turns, so that other work on the machine slows all of them down alike. "Each
step alone" calls the expert as training does: every layer of every step joins the context with the
action slots, and every step encodes its time. "Prepared once" is how policies act. "Fixed buffers"
are what CUDA graphs are captured over.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import vlm_speed
from benchmarks.record import write_result
from benchmarks.timing import Job, median_ms_in_turns
from oatkit.nn.captured_call import GraphPool
from oatkit.nn.flow import euler_times, integrate
from oatkit.nn.flow_acting import integrate_expert
from oatkit.nn.flow_expert import FlowExpert, Memory
from oatkit.nn.flow_graphs import FlowGraphs
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig

SEED = 0
FAMILIES = ("paligemma2", "qwen3-vl")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Types of the context; the expert computes in float32."""
ROUNDS = 7


def main() -> None:
    torch.manual_seed(SEED)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in FAMILIES:
            place = Path(folder) / family
            checkpoint = write_scratch(family, place, vlm_speed.SIZE, [vlm_speed.TEXT], SEED)
            results[family] = measure(checkpoint)
    settings = {
        "euler_steps": ExpertConfig().num_steps,
        "rounds": ROUNDS,
        "threads": torch.get_num_threads(),
    }
    write_result("flow_speed", seed=SEED, settings=settings, results=results)


@torch.inference_mode()
def measure(checkpoint: Path) -> dict[str, Any]:
    """Milliseconds of a chunk by type of the context and way."""
    policy = vlm_speed.make_policy(checkpoint, "vlm-tc")
    expert, num_steps = policy.net.expert, policy.net.config.expert.num_steps
    assert expert is not None
    memory = policy.net.memory(policy.net.encode(vlm_speed.observe(policy)))
    noise = torch.randn(1, vlm_speed.HORIZON, vlm_speed.ACTION_DIM)
    jobs: dict[str, Job] = {}
    for name, dtype in DTYPES.items():
        pairs = [(keys.to(dtype), values.to(dtype)) for keys, values in memory.pairs]
        cast = Memory(pairs, memory.is_seen, memory.rotary)
        graphs = FlowGraphs(expert, GraphPool())
        jobs[f"{name}: each step alone"] = partial(step_by_step, expert, noise, cast, num_steps)
        jobs[f"{name}: prepared once"] = partial(integrate_expert, expert, noise, cast, num_steps)
        jobs[f"{name}: fixed buffers"] = partial(graphs.integrate, noise, cast, num_steps)
    ms = {name: round(value, 2) for name, value in median_ms_in_turns(jobs, ROUNDS).items()}
    return {"context_slots": memory.is_seen.shape[1], "ms": ms}


def step_by_step(expert: FlowExpert, noise_BTA: Tensor, memory: Memory, num_steps: int) -> Tensor:
    """Chunks by calling the expert at every step."""
    times = euler_times(num_steps)
    return integrate(
        lambda point, step: expert(point, torch.full((len(point),), times[step]), memory),
        noise_BTA,
        num_steps,
    )


if __name__ == "__main__":
    main()
