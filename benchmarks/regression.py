"""A plain network that regresses chunks, on our demonstrations, goals and protocol.

    python -m benchmarks.regression [--seeds 0 1 2] [--steps 2500] [--episodes 50] [--tiny]

What tokens have to be measured against: three residual layers read the state of one frame and the
task, and predict all 32 actions at once by their mean absolute error. It has no tokens, no prefixes
and one answer to every observation, and is trained in a minute. The episodes are those of
`benchmarks.control`. Rows are saved one by one: the same command again goes on.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.neighbors import HELD_OUT, STEPS, measure_rule, without_tokens
from benchmarks.policy_table import HORIZON, open_with_full_state
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.tokenizer_rate_distortion import metaworld
from oatkit.data import Dataset, Normalizer
from oatkit.policies.generation.random_rows import Generators
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types import Budget, Prediction, Sampling, Schedule

NAME = "regression"
WIDTH, NUM_LAYERS, DROPOUT = 256, 3, 0.1
BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY = 256, 2e-3, 1e-2


@dataclass(frozen=True)
class Samples:
    """Observations and the chunks that follow: normalized states (N, S), tasks (N,), (N, T, A)."""

    state: Tensor
    task: Tensor
    actions: Tensor


def main(argv: list[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2], help="of the training")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--tiny", action="store_true", help="few steps and episodes, as a test")
    args = parser.parse_args(argv)
    keep_apart(args.tiny)
    if args.tiny:
        args.steps, args.episodes, args.seeds = 2, 1, [0]
    dataset = open_with_full_state(metaworld())
    train_set, held_out = dataset.split(HELD_OUT, seed=0)
    spec = ObservationSpec(
        1, Normalizer.fit(train_set.state_statistics(), "mean_std"), {}, dataset.tasks
    )
    for seed in args.seeds:
        if STEPS.keys() <= read_results(NAME).get(str(seed), {}).get("rules", {}).keys():
            print(f"seed {seed} is finished")
            continue
        net, seconds = train(samples(train_set, spec), seed, args.steps)
        policy = RegressionPolicy(net, spec)
        row = {
            "seed": seed,
            "steps": args.steps,
            "batch_size": BATCH_SIZE,
            "seconds": seconds,
            "parameters": sum(p.numel() for p in net.parameters()),
            "held_out": errors(net, samples(held_out, spec)),
            "rules": {
                rule: measure_rule(policy, execution, args.episodes)
                for rule, execution in STEPS.items()
            },
        }
        results = {**read_results(NAME), str(seed): row}
        write_result(NAME, seed=seed, settings={"episodes": args.episodes}, results=results)


def samples(dataset: Dataset, spec: ObservationSpec) -> Samples:
    """All observations of a dataset with the chunks that follow."""
    assert spec.state is not None
    states, tasks, actions = [], [], []
    for episode in dataset:
        assert episode.state is not None
        steps = np.minimum(np.arange(len(episode))[:, None] + np.arange(HORIZON), len(episode) - 1)
        actions.append(np.asarray(episode.actions)[steps])
        states.append(spec.state.normalize(np.asarray(episode.state, np.float32)))
        tasks += [dataset.tasks.index(episode.task)] * len(episode)
    return Samples(
        torch.from_numpy(np.concatenate(states)),
        torch.tensor(tasks),
        torch.from_numpy(np.concatenate(actions)).float(),
    )


class Regression(nn.Module):
    """State (B, S) and task (B,) to chunks (B, T, A), by residual layers."""

    def __init__(self, state_dim: int, num_tasks: int, action_dim: int) -> None:
        super().__init__()
        self.num_tasks, self.action_dim = num_tasks, action_dim
        self.embed = nn.Linear(state_dim + num_tasks, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH),
                nn.Linear(WIDTH, WIDTH),
                nn.ReLU(),
                nn.Dropout(DROPOUT),
                nn.Linear(WIDTH, WIDTH),
            )
            for _ in range(NUM_LAYERS)
        )
        self.head = nn.Linear(WIDTH, HORIZON * action_dim)

    def forward(self, state_BS: Tensor, task_B: Tensor) -> Tensor:
        task_BN = F.one_hot(task_B, self.num_tasks)
        x_BD = self.embed(torch.cat([state_BS.clamp(-5, 5), task_BN], dim=-1))
        for layer in self.layers:
            x_BD = x_BD + layer(x_BD)
        return self.head(x_BD).view(-1, HORIZON, self.action_dim)


def train(given: Samples, seed: int, steps: int) -> tuple[Regression, float]:
    """The trained network, and the seconds that it took."""
    torch.manual_seed(seed)
    started = time.perf_counter()
    net = Regression(given.state.shape[1], int(given.task.max()) + 1, given.actions.shape[2])
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(given.state), (BATCH_SIZE,))
        predicted_BTA = net(given.state[rows], given.task[rows])
        loss = F.l1_loss(predicted_BTA, given.actions[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return net.eval(), time.perf_counter() - started


@torch.no_grad()
def errors(net: Regression, given: Samples) -> dict[str, float]:
    """Errors of chunks that training did not see."""
    left = net(given.state, given.task).clamp(-1, 1) - given.actions
    return {"mse": float(left.square().mean()), "mae": float(left.abs().mean())}


class RegressionPolicy:
    """The network as an `ActingPolicy`."""

    def __init__(self, net: Regression, spec: ObservationSpec) -> None:
        self.net = net
        self.spec = spec

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation."""
        return read_observation(self.spec, observation, allow_more=allow_more)

    @torch.no_grad()
    def predict_action_chunk(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        sampling: Sampling = Sampling(),
        generator: Generators = None,
        deadline_ms: float | None = None,
        draws: int = 1,
        committed: Any = None,
    ) -> Prediction:
        """Chunks that follow a batch of observations; there is nothing to choose."""
        started = time.perf_counter()
        read = observation if isinstance(observation, Observations) else self.read(observation)
        chunk_BTA = self.net(read.state[:, -1], read.task).clamp(-1, 1)
        elapsed_ms = 1000 * (time.perf_counter() - started)
        return without_tokens(chunk_BTA.numpy(), 1, elapsed_ms)


if __name__ == "__main__":
    main()
