"""How widely the embedding rows of new action tokens should be spread around those of known tokens.

    python -m benchmarks.vlm_rows    # minutes; data, tokenizer and backbones of vlm_pipeline

With spread 0 every action token begins at the mean of the known rows, with spread 1 the new rows
also have their covariance. The numbers are the losses of `vlm-ar` in powers of two: before
training, after it, and on held-out chunks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch
import tyro

from benchmarks.record import write_result
from benchmarks.vlm_training import FAMILIES, make_backbone, make_demonstrations, make_tokenizer
from benchmarks.vlm_training import Options as Pipeline
from oatkit.data import Dataset, open_dataset
from oatkit.envs.metaworld import CAMERA
from oatkit.jobs.policy_training import PolicyJob
from oatkit.measure.held_out_losses import measure_losses
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import VlmConfig, policy_for_dataset
from oatkit.policies.vlm import token_head
from oatkit.tokenizers import load_tokenizer
from oatkit.train.loop import sample_indices

SPREADS = (0.0, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Options:
    steps: int = 150
    learning_rate: float = 1e-3
    pipeline: Pipeline = field(default_factory=Pipeline)


def main(options: Options) -> None:
    dataset = open_dataset(make_demonstrations(options.pipeline))
    results = {
        family: {str(spread): measure(options, family, spread, dataset) for spread in SPREADS}
        for family in FAMILIES
    }
    settings = {"steps": options.steps, "batch_size": options.pipeline.batch_size}
    write_result("vlm_rows", seed=options.pipeline.seed, settings=settings, results=results)


def measure(options: Options, family: str, spread: float, dataset: Dataset) -> dict[str, Any]:
    pipeline = options.pipeline
    torch.manual_seed(pipeline.seed)
    token_head.SPREAD = spread
    policy = policy_for_dataset(
        VlmConfig("vlm-ar"),
        load_tokenizer(make_tokenizer(pipeline, "oat-pow2")),
        dataset,
        backbone=str(make_backbone(pipeline, family, dataset)),
        cameras=(CAMERA,),
    )
    train_set, held_out = dataset.split(fraction=0.1, seed=0)
    job = PolicyJob(policy, train_set, held_out)
    optimizer = torch.optim.AdamW(policy.net.parameters(), options.learning_rate)
    losses = []
    for step in range(options.steps):
        indices = sample_indices(pipeline.seed, step, pipeline.batch_size, job.num_samples)
        random = SampleRandom(torch.zeros(len(indices)).long())
        loss = job.loss(job.batch(indices), random).total
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(policy.net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    observations, actions, _ = observations_to_measure(policy, held_out, 256)
    tokens = policy.tokenizer.encode(actions)
    held_out_loss = measure_losses(policy, observations, tokens, actions).tokens
    return {"first": losses[0], "last": fmean(losses[-20:]), "held out": held_out_loss}


if __name__ == "__main__":
    main(tyro.cli(Options, args=sys.argv[1:]))
