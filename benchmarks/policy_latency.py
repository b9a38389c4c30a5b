"""How long the light policy takes for one observation, against a bare pass over its weights.

    python -m benchmarks.policy_latency [--repeats 200]

The paper's size (about 5M parameters), batch 1, from state. `generate` is from the encoded
observation to the last id; encoding the observation and decoding the tokens are timed separately. A
"bare pass" multiplies a vector with each matrix of the generating network once, in the layout that
is faster here, which is what reading the weights costs. Every round times everything, in one
process, and medians are given: a machine that is slow for a while slows everything down alike.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import oatkit
from benchmarks.record import keep_apart, write_result
from benchmarks.timing import Job, matmul_gflops, median_ms_in_turns
from oatkit.data import Dataset
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.policies import Policy, policy_for_dataset
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.presets import policy_preset, tokenizer_preset
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.types import Schedule

NAME = "policy_latency"
SEED = 0
HORIZON, ACTION_DIM, STATE_DIM, HISTORY = 32, 7, 39, 2
SCHEDULES = {
    "16 tokens, token-wise": Schedule.tokenwise(16),
    "16 tokens, powers of two": Schedule.pow2(16),
    "16 tokens, one-shot": Schedule.one_shot(16),
    "8 tokens, token-wise": Schedule.tokenwise(8),
}
WARM_UP = 10


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--preset", default="paper")
    args = parser.parse_args(argv)
    keep_apart(args.preset == "tiny")
    torch.manual_seed(SEED)
    before = matmul_gflops()
    with torch.inference_mode():
        results = measure(args.preset, args.repeats)
    settings = {
        "preset": args.preset,
        "chunk": [HORIZON, ACTION_DIM],
        "state": [HISTORY, STATE_DIM],
        "repeats": args.repeats,
        "threads": torch.get_num_threads(),
        "matmul_gflops": round(max(before, matmul_gflops()), 1),
    }
    write_result(NAME, seed=SEED, settings=settings, results=results)


def measure(preset: str, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        dataset = made_up_data(Path(folder))
        policies = {
            name: make_policy(preset, schedule, dataset) for name, schedule in SCHEDULES.items()
        }
    jobs: dict[str, Job] = {}
    for name, policy in policies.items():
        jobs |= {f"{name}/{part}": job for part, job in parts(policy).items()}
    first = policies["16 tokens, token-wise"]
    weights = matrices(first.net.decoder)
    jobs |= {"one call": generating(first, budget=1), **bare_passes(weights)}
    ms = median_ms_in_turns(jobs, repeats, warm_up=WARM_UP)
    bare = min(ms["bare, by rows"], ms["bare, by columns"])
    token_wise = ms["16 tokens, token-wise/generate"]
    rows = {}
    for name, policy in policies.items():
        own = {part: ms[f"{name}/{part}"] for part in ("encode", "generate", "decode", "whole")}
        calls = policy.schedule.calls
        rows[name] = {
            "calls": calls,
            **{f"{part}_ms": round(value, 3) for part, value in own.items()},
            "call_over_bare": round(own["generate"] / calls / bare, 2),
            "faster_than_16_token_wise": round(token_wise / own["generate"], 2),
        }
    return {
        "parameters": sum(p.numel() for p in first.net.parameters()),
        "weights_read": sum(w.numel() for w in weights),
        "bare_ms": round(bare, 3),
        "one_call_ms": round(ms["one call"], 3),
        "one_call_over_bare": round(ms["one call"] / bare, 2),
        "schedules": rows,
    }


def made_up_data(folder: Path) -> Dataset:
    """A dataset of the right dimensions; its numbers do not matter for the time."""
    rng = np.random.default_rng(SEED)
    for index in range(2):
        columns: dict[str, Any] = {
            "action": rng.uniform(-1, 1, (HORIZON, ACTION_DIM)),
            "observation.state": rng.uniform(-1, 1, (HORIZON, STATE_DIM)),
        }
        np.savez(folder / f"{index}.npz", **columns, task="a task")
    return oatkit.open_dataset(folder, cache_dir=folder / "cache")


def make_policy(preset: str, schedule: Schedule, dataset: Dataset) -> Policy:
    """An untrained policy that generates by a schedule."""
    config = make_config(
        "oat",
        horizon=HORIZON,
        action_dim=ACTION_DIM,
        num_tokens=schedule.num_tokens,
        **tokenizer_preset(preset).settings("oat"),
    )
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    net = replace(policy_preset(preset).net, endpoints=schedule.endpoints)
    policy = policy_for_dataset(net, tokenizer, dataset, history=HISTORY)
    policy.extras, tokenizer.extras = {}, {}  # time is measured, and not what it gives
    return policy


def parts(policy: Policy) -> dict[str, Job]:
    """A prediction and what it consists of, for one observation."""
    state = np.zeros((1, HISTORY, STATE_DIM), np.float32)
    observation = {"observation.state": state, "task": ["a task"]}
    read = policy.read(observation)
    ids_BK = torch.randint(policy.tokenizer.vocab_size, (1, policy.schedule.num_tokens))
    return {
        "encode": lambda: policy.net.encode(read),
        "generate": generating(policy, policy.schedule.num_tokens),
        "decode": lambda: policy.tokenizer.decode(ids_BK),
        "whole": lambda: policy.predict_action_chunk(observation),
    }


def generating(policy: Policy, budget: int) -> Job:
    """A job that generates from the encoded observation to the last id, sampling included."""
    state = np.zeros((1, HISTORY, STATE_DIM), np.float32)
    read = policy.read({"observation.state": state, "task": ["a task"]})
    context = policy.net.encode(read)
    schedule = policy.schedule.up_to(budget)
    stages = policy.net.pack(schedule, policy.device).stages

    def job() -> None:
        generation = policy.net.start(context, 1, schedule.num_tokens)
        uniform_BK = torch.rand(1, schedule.num_tokens)
        for _ in generate_stages(generation, stages, uniform_BK, mask_id=policy.net.mask_id):
            pass

    return job


def matrices(decoder: TokenDecoder) -> list[Tensor]:
    """Matrices (outputs, inputs) that a call multiplies with; keys of the context are older."""
    layers = (decoder.attention, decoder.reading, decoder.mlp)
    found = [p.detach() for layer in layers for p in layer.parameters() if p.ndim == 2]
    return [*found, decoder.symbols.detach()[: len(decoder.bias)]]


def bare_passes(weights: list[Tensor]) -> dict[str, Job]:
    """A vector times every matrix, in both layouts."""
    pairs = [(w, torch.randn(w.shape[1])) for w in weights]
    turned = [(w.t().contiguous(), x[None]) for w, x in pairs]
    return {
        "bare, by rows": lambda: [torch.mv(w, x) for w, x in pairs],
        "bare, by columns": lambda: [torch.mm(x, w) for w, x in turned],
    }


if __name__ == "__main__":
    main()
