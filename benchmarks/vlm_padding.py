"""Whether the flow loss should leave out the steps past the end of an episode.

    python -m benchmarks.vlm_padding    # minutes; data and backbones of vlm_pipeline

A chunk that reaches past the end of its episode is filled up with the last action. `vlm-flow` is
trained with and without these steps in its loss, from three seeds each. On held-out episodes, and
apart for the steps of the episode and for the padding, the numbers are the flow loss and the mean
squared error of chunks from zero noise, in normalized units.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from statistics import fmean

import torch
import tyro
from torch import Tensor

from benchmarks.record import write_result
from benchmarks.vlm_pipeline import cached
from benchmarks.vlm_training import Options as Pipeline
from benchmarks.vlm_training import make_backbone, make_demonstrations
from oatkit import train_policy
from oatkit.data import Dataset, open_dataset
from oatkit.envs.metaworld import CAMERA
from oatkit.jobs.untrained_policy import policy_config
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy

FAMILY = "paligemma2"


LOSSES = {"all steps": False, "steps of the episode": True}
"""What the flow loss is over, and whether padding is masked for it."""


@dataclass(frozen=True)
class Options:
    steps: int = 300
    batch_size: int = 32
    seeds: tuple[int, ...] = (0, 1, 2)
    chunks: int = 512
    """Number of held-out chunks."""
    pipeline: Pipeline = field(default_factory=Pipeline)


def main(options: Options) -> None:
    dataset = open_dataset(make_demonstrations(options.pipeline))
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in LOSSES}
    for seed in options.seeds:
        for name in LOSSES:
            place = f"padding/{name}/{seed}"
            rows[name].append(
                cached(options.pipeline, place, measure, options, name, seed, dataset)
            )
    results = {
        name: {"mean": {key: fmean(row[key] for row in found) for key in found[0]}, "seeds": found}
        for name, found in rows.items()
    }
    settings = {"steps": options.steps, "batch_size": options.batch_size, "family": FAMILY}
    write_result("vlm_padding", seed=options.seeds[0], settings=settings, results=results)


def measure(
    pipeline: Pipeline, options: Options, name: str, seed: int, dataset: Dataset
) -> dict[str, float]:
    """Held-out errors of a policy whose flow loss is over what `name` says."""
    config = policy_config("vlm-flow")
    policy = train_policy(
        dataset,
        None,
        replace(config, expert=replace(config.expert, width=64), mask_padding=LOSSES[name]),
        backbone=str(make_backbone(pipeline, FAMILY, dataset)),
        cameras=(CAMERA,),
        horizon=pipeline.horizon,
        train={
            "steps": options.steps,
            "batch_size": options.batch_size,
            "seed": seed,
            "workers": 0,
            "evaluate_every": options.steps,
        },
    )
    return held_out_errors(policy, dataset.split(fraction=0.1, seed=0)[1], options.chunks)


@torch.inference_mode()
def held_out_errors(policy: Policy, held_out: Dataset, num_chunks: int) -> dict[str, float]:
    """Flow loss and chunk error, on the steps of episodes and on padding."""
    observations, actions_BTA, is_pad = observations_to_measure(policy, held_out, num_chunks)
    is_pad_BT = torch.from_numpy(is_pad)
    wanted_BTA = policy.actions.normalize(actions_BTA)
    most, flows, chunks = policy.rows_at_once, [], []
    for number, block in enumerate(observations.split(most)):
        part = slice(number * most, (number + 1) * most)
        context, actions, masked = policy.net.encode(block), wanted_BTA[part], is_pad_BT[part]
        keys = sample_keys(0, number, torch.arange(len(block)))
        flows.append(
            len(block)
            * torch.stack(
                [
                    policy.net.flow_loss(context, actions, SampleRandom(keys), left_out)
                    for left_out in (masked, ~masked)
                ]
            )
        )
        chunks.append(policy.net.flow(context, torch.zeros_like(actions)) - actions)
    squared_BT = torch.cat(chunks).square().mean(dim=2)
    real, padding = torch.stack(flows).sum(dim=0).mul(is_pad_BT.shape[1]).tolist()
    return {
        "share of padding": float(is_pad_BT.float().mean()),
        "flow loss": real / int((~is_pad_BT).sum()),
        "flow loss of padding": padding / int(is_pad_BT.sum()),
        "chunk error": _mean(squared_BT, ~is_pad_BT),
        "chunk error before the end": _mean(squared_BT, ~is_pad_BT & is_pad_BT.any(1)[:, None]),
        "chunk error of padding": _mean(squared_BT, is_pad_BT),
    }


def _mean(values_BT: Tensor, is_counted_BT: Tensor) -> float:
    return float(values_BT[is_counted_BT].mean())


if __name__ == "__main__":
    main(tyro.cli(Options, args=sys.argv[1:]))
