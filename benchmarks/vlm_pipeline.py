"""Vision-language policies from demonstrations to closed loop, on backbones with random weights.

    python -m benchmarks.vlm_pipeline                 # hours on one core
    python -m benchmarks.vlm_pipeline --only vlm-tc   # some rows; the others stay as they are
    python -m benchmarks.vlm_pipeline --only overfitting
    python -m benchmarks.vlm_pipeline --tiny          # minutes; the numbers mean nothing

There are two MetaWorld tasks whose scenes look alike: only the instruction says whether to lock or
to unlock the door, and only the image shows where it is, because the state is that of the arm
alone. Policies of both families are trained token by token, in powers of two, on the tokens of the
other kinds, and co-trained; one family is also co-trained with every tokenizer and without tokens,
and generates `oat` in powers of two. All meet the same goals as a random policy and as the mean
demonstration of the task, which is replayed. Then they see images of other moments, and read the
instruction of the other task; `oat` and `oat-pow2` also act with fewer tokens, and with as many
as they themselves find worth it. Every row is written when it is
finished; the same command again resumes, also within a training. What the results have of the mean
demonstration and of overfitting is not run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import ArrayLike, NDArray

from benchmarks.closed_loop import solved
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.timing import trained_seconds
from benchmarks.vlm_training import (
    DECODING,
    FAMILIES,
    TINY,
    TOKENIZER_BATCH,
    Options,
    Row,
    decoded,
    make_backbone,
    make_demonstrations,
    make_policy,
    make_tokenizer,
    policy_dir,
)
from oatkit.data import Dataset, open_dataset
from oatkit.envs.metaworld import CAMERA, METAWORLD, MetaWorld
from oatkit.envs.simulator import (
    Cameras,
    Observation,
    SimulatorKind,
    StepResult,
    evaluation_seed,
)
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.evaluation.success_statistics import compare_paired, success_rate
from oatkit.measure.held_out_losses import measure_losses
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy, Prediction, VlmConfig, policy_for_dataset
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.tokenizers import load_tokenizer
from oatkit.types import Budget, EpisodeResult, Execution, Sampling
from oatkit.types.observation_keys import IMAGES, STATE, TASK

NAME = "vlm_pipeline"
COMPARED = "paligemma2"
"""Family that is co-trained with every tokenizer."""
OTHER_KINDS = ("bin", "fast", "quest", "acodec")
"""Tokenizers that are generated and that teach, beside `oat`."""
TEMPERATURE = 0.0
"""Policies take the likeliest tokens, and a flow starts from zero noise."""
POST_HOC = "powers of two at inference"
"""How a policy that was trained token by token also generates."""
AT_BUDGET = "budget {}"
"""How a policy acts with fewer tokens."""

FLOW = Row("vlm-flow", "oat", COMPARED, is_misled=False)
ROWS = (
    *(Row("vlm-ar", kind, family) for family in FAMILIES for kind in ("oat", "oat-pow2")),
    Row("vlm-ar", "oat", COMPARED, is_misled=False, is_grouped=True),
    *(Row("vlm-tc", "oat", family) for family in FAMILIES),
    FLOW,
    *(Row("vlm-tc", kind, COMPARED, is_misled=False) for kind in OTHER_KINDS),
    *(Row("vlm-ar", kind, family, is_misled=False) for family in FAMILIES for kind in OTHER_KINDS),
)


def main(options: Options) -> None:
    keep_apart(options.tiny)
    if options.tiny:
        options = replace(options, out=options.out / "tiny", **TINY)
    dataset = open_dataset(make_demonstrations(options))
    results: dict[str, Any] = {
        "baselines": played_before(options) or cached(options, "baselines", baselines, dataset),
        "policies": {},
        "overfitting": {},
    }
    for row in ROWS:
        if is_asked(options, row.name):
            results["policies"][row.name] = measure(options, row, dataset)
            report(options, results)
    for row in overfitted(options):
        found = cached(options, f"overfitting/{row.name}", overfit, row, dataset)
        results["overfitting"][f"{row.objective}/{row.family}"] = found
    report(options, results)


def is_asked(options: Options, name: str) -> bool:
    """Whether a row is to run."""
    return name.startswith(options.only or "")


def overfitted(options: Options) -> list[Row]:
    """Policies that are to learn some chunks by heart and have not done so."""
    done = read_results(NAME).get("overfitting", {})
    rows = [Row(way, "oat-pow2", family) for family in FAMILIES for way in ("vlm-ar", "vlm-tc")]
    return [
        row
        for row in rows
        if is_asked(options, f"overfitting/{row.name}")
        and f"{row.objective}/{row.family}" not in done
    ]


def played_before(options: Options) -> dict[str, Any]:
    """The episodes without a policy that the results have, of the same seed and number; empty where
    they have none, or do not say which were solved."""
    found: dict[str, Any] = {}
    wanted = dict.fromkeys(options.tasks, options.episodes), options.seed
    for name, row in read_results(NAME).get("baselines", {}).items():
        kept = row.get("solved", {})
        if ({task: len(own) for task, own in kept.items()}, row.get("seed")) != wanted:
            return {}
        found[name] = [
            played(task, episode, evaluation_seed(options.seed, episode), 0, own[episode] == "1")
            for task, own in kept.items()
            for episode in range(options.episodes)
        ]
    return found


def report(options: Options, results: dict[str, Any]) -> None:
    """Write the results so far; each policy is compared with the mean demonstration."""
    replayed = episodes_of(results["baselines"]["mean demonstration"])
    shown: dict[str, Any] = {
        "baselines": {
            name: {
                **success_numbers(rows),
                **{"solved": solved(episodes_of(rows)), "seed": options.seed},
            }
            for name, rows in results["baselines"].items()
        },
        "policies": {},
        "overfitting": results["overfitting"],
    }
    flow = results["policies"].get(FLOW.name)
    for name, found in results["policies"].items():
        loops = {how: success_numbers(rows) for how, rows in found["closed loop"].items()}
        own = episodes_of(found["closed loop"]["as it is"])
        pair = compare_paired("mean demonstration", name, replayed, own)
        assert pair is not None
        shown["policies"][name] = {
            "parameters": found["parameters"],
            "seconds": found["seconds"],
            "token accuracy": found["token accuracy"],
            "closed loop": loops,
            "against the mean demonstration": asdict(pair),
            "settings": found["settings"],
        }
        if flow is not None and name.startswith("vlm-tc") and name.endswith(COMPARED):
            pair = compare_paired(
                FLOW.name, name, episodes_of(flow["closed loop"]["as it is"]), own
            )
            assert pair is not None
            shown["policies"][name]["against pure flow"] = asdict(pair)
    settings = settings_of(options)
    write_result(NAME, seed=options.seed, settings=settings, results=merged(shown))


def settings_of(options: Options) -> dict[str, Any]:
    """What decides the numbers of a row, as JSON."""
    values = asdict(replace(options, out=Path(), only=()))
    acts = {"temperature": TEMPERATURE, "decoding": DECODING}
    sizes = {"tokenizer_batch_size": TOKENIZER_BATCH}
    return {**json.loads(json.dumps(values, default=str)), **sizes, **acts}


def merged(shown: dict[str, Any]) -> dict[str, Any]:
    """What was found now, and the rows that were found before and not now, each with the settings
    of its run."""
    before = read_results(NAME)
    rows = {**before.get("policies", {}), **shown["policies"]}
    return {
        "baselines": shown["baselines"],
        "policies": {row.name: rows[row.name] for row in ROWS if row.name in rows},
        "overfitting": {**before.get("overfitting", {}), **shown["overfitting"]},
    }


def cached(options: Options, name: str, work: Callable[..., Any], *args: Any) -> Any:
    """The result of `work`, which is kept as JSON."""
    path = options.out / "results" / f"{name.replace('/', '_')}.json"
    if not path.exists():
        found = work(options, *args)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1))
    return json.loads(path.read_text())


def episodes_of(rows: Sequence[Mapping[str, Any]]) -> list[EpisodeResult]:
    return [EpisodeResult(**row) for row in rows]


def success_numbers(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Success of all episodes and of each task."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    by_task = {task: [row["is_success"] for row in rows if row["task"] == task] for task in tasks}
    groups = {"all": [row["is_success"] for row in rows], **by_task}
    return {name: asdict(success_rate(sum(own), len(own))) for name, own in groups.items()}


# Closed loop


class Short:
    """A MetaWorld task without shadows, as in the demonstrations, that ends early.

    Args:
        task: Name of the task.
        cameras: Cameras to render, each with height and width.
        max_steps: Number of steps after which an episode is over.
    """

    def __init__(self, task: str, cameras: Cameras, *, max_steps: int) -> None:
        self._inner = MetaWorld(task, cameras, shadows=False)
        self._max_steps = max_steps
        self._steps = 0
        self.render = self._inner.render
        self.close = self._inner.close

    def reset(self, seed: int) -> Observation:
        self._steps = 0
        return self._inner.reset(seed)

    def step(self, action: ArrayLike) -> StepResult:
        self._steps += 1
        result = self._inner.step(action)
        return replace(result, is_over=result.is_over or self._steps >= self._max_steps)


def simulator(options: Options) -> SimulatorKind:
    return replace(METAWORLD, make=partial(Short, max_steps=options.max_steps))


class Misled:
    """A policy that sees the images of other moments, or reads the instruction of another task."""

    def __init__(self, policy: Policy, dataset: Dataset, what: str) -> None:
        self.spec = policy.spec
        self._policy = policy
        self._what = what
        self._rng = np.random.default_rng(0)
        chunks = dataset.chunks(policy.tokenizer.horizon, cameras=(CAMERA,))
        some = self._rng.integers(len(chunks), size=min(256, len(chunks)))
        self._images = chunks.batch(some)[f"{IMAGES}{CAMERA}"]

    def predict_action_chunk(self, observation: Mapping[str, Any], **rest: Any) -> Prediction:
        changed = dict(observation)
        if self._what == "other images":
            count = len(observation[f"{IMAGES}{CAMERA}"])
            picked = self._rng.integers(len(self._images), size=count)
            changed[f"{IMAGES}{CAMERA}"] = self._images[picked]
        else:
            changed[TASK] = [
                next(task for task in self.spec.tasks if task != own) for own in observation[TASK]
            ]
        return self._policy.predict_action_chunk(changed, **rest)


def measure(options: Options, row: Row, dataset: Dataset) -> dict[str, Any]:
    """Episodes of the policy, also misled, and how well it predicts tokens."""
    policy = make_policy(options, row, dataset)

    def loop(how: str, actor: Any, **given: Any) -> Any:
        name = f"{row.name}, {how}{decoded(row.kind)}"
        return cached(options, name, partial(closed_loop, **given), actor)

    accuracies = (
        cached(options, f"{row.name}, token accuracy", token_accuracies, policy, dataset)
        if "tokens" in policy.heads
        else {}
    )
    loops = {"as it is": loop("as it is", policy)}
    if row.is_misled:
        for what in ("other images", "other text"):
            loops[what] = loop(what, Misled(policy, dataset, what))
        if policy.kind == "vlm-tc":
            policy.head = "tokens"
            loops["its token head"] = loop("its token head", policy)
    if (row.objective, row.kind) == ("vlm-ar", "oat") and not row.is_grouped:
        loops[POST_HOC] = loop(POST_HOC, policy, endpoints=options.grouped)
    if row.objective == "vlm-ar" and row.kind in ("oat", "oat-pow2") and not row.is_grouped:
        for budget in (*policy.budgets[:-1], "auto"):
            how = AT_BUDGET.format(budget)
            loops[how] = loop(how, policy, budget=budget)
    return {
        "settings": settings_of(options),
        "parameters": sum(p.numel() for p in policy.net.parameters()),
        "seconds": trained_seconds(policy_dir(options, row), policy),
        "token accuracy": accuracies,
        "closed loop": loops,
    }


def closed_loop(
    options: Options,
    policy: Any,
    endpoints: tuple[int, ...] | None = None,
    *,
    temperature: float = TEMPERATURE,
    budget: Budget = None,
) -> list[dict[str, Any]]:
    """Episodes of a policy; the goals are those of the seed.

    Args:
        options: Tasks and episodes.
        policy: What acts.
        endpoints: Schedule to generate by; the policy's own by default.
        temperature: Temperature of sampling; 0 is deterministic.
        budget: Number of tokens, or of Euler steps of a flow expert; all by default.
    """
    rollout = Rollout(
        Execution(options.horizon // 2),
        endpoints=endpoints,
        sampling=Sampling(temperature=temperature, seed=options.seed),
        state_keys=(STATE,),
    )
    plans = [
        EpisodePlan(task, budget, episode)
        for task in options.tasks
        for episode in range(options.episodes)
    ]
    ended = EpisodeRunner(policy, simulator(options), rollout, num_slots=8).run(plans)
    return [asdict(episode) for episode in ended]


def token_accuracies(options: Options, policy: Policy, dataset: Dataset) -> dict[str, float]:
    """Token accuracy on held-out chunks: as they are, and with images or texts of others."""
    split = policy.extras["split"]
    _, held_out = dataset.split(fraction=split["held_out"], seed=split["seed"])
    observations, actions, _ = observations_to_measure(policy, held_out, 512)
    order = torch.randperm(len(observations), generator=torch.Generator().manual_seed(0))
    images = tuple(pixels[order] for pixels in observations.images)
    seen = {
        "as it is": observations,
        "other images": replace(observations, images=images),
        "other text": replace(observations, task=observations.task[order]),
    }
    return {name: accuracy(policy, own, actions) for name, own in seen.items()}


def accuracy(policy: Policy, observations: Observations, actions: torch.Tensor) -> float:
    tokens = policy.tokenizer.encode(actions)
    slots = measure_losses(policy, observations, tokens, actions).slots
    return sum(s.share * s.accuracy for s in slots) / sum(s.share for s in slots)


def baselines(options: Options, dataset: Dataset) -> dict[str, Any]:
    """A random policy, and the mean of the demonstrations replayed step by step."""
    rng = np.random.default_rng(options.seed)
    kind = simulator(options)
    low, high = kind.bounds

    def random(_: int) -> NDArray[np.float32]:
        return rng.uniform(low, high).astype(np.float32)

    found: dict[str, list[dict[str, Any]]] = {"random": [], "mean demonstration": []}
    for task in options.tasks:
        mean_TA = mean_demonstration(dataset, kind.tasks[task])
        acts: dict[str, Callable[[int], NDArray[np.float32]]] = {
            "random": random,
            "mean demonstration": partial(replay, mean_TA),
        }
        environment = kind.make(task, {})
        for episode in range(options.episodes):
            for name, act in acts.items():
                seed = evaluation_seed(options.seed, episode)
                environment.reset(seed)
                for step in range(options.max_steps):
                    result = environment.step(act(step).clip(low, high))
                    if result.is_success:
                        break
                found[name].append(played(task, episode, seed, step + 1, result.is_success))
        environment.close()
    return found


def replay(mean_TA: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    action_A: NDArray[np.float32] = mean_TA[min(step, len(mean_TA) - 1)]
    return action_A


def played(task: str, episode: int, seed: int, steps: int, is_success: bool) -> dict[str, Any]:
    """The record of an episode without a policy."""
    return asdict(
        EpisodeResult(
            task=task,
            budget=None,
            episode=episode,
            seed=seed,
            is_success=is_success,
            score=None,
            steps=steps,
            queries=0,
            calls=0,
            tokens=0,
            latency_ms=0,
            clipped=0,
            repeats=0,
            error=None,
        )
    )


def mean_demonstration(dataset: Dataset, instruction: str) -> NDArray[np.float32]:
    episodes = [e.actions for e in dataset if e.task == instruction]
    longest = max(len(actions) for actions in episodes)
    padded = [np.pad(a, ((0, longest - len(a)), (0, 0)), mode="edge") for a in episodes]
    return np.asarray(np.mean(padded, axis=0), np.float32)


# Overfitting


def overfit(options: Options, row: Row, dataset: Dataset) -> dict[str, Any]:
    """Learn 16 chunks by heart: their tokens, and with co-training the chunks themselves."""
    torch.manual_seed(options.seed)
    policy = policy_for_dataset(
        VlmConfig(row.objective, expert=ExpertConfig(width=64)),
        load_tokenizer(make_tokenizer(options, row.kind)),
        dataset,
        backbone=str(make_backbone(options, row.family, dataset)),
        cameras=(CAMERA,),
    )
    chunks = dataset.chunks(options.horizon, cameras=(CAMERA,))
    batch = chunks.batch(np.linspace(0, len(chunks) - 1, 16).astype(int))
    read = policy.read(batch)
    actions = torch.from_numpy(batch["action"])
    learn(policy, read, actions, options.overfit_steps)
    found: dict[str, Any] = {"token accuracy": accuracy(policy, read, actions)}
    if policy.net.expert is not None:
        found["mse, normalized"] = mse(policy, read, actions)
        found["variance, normalized"] = float(policy.actions.normalize(actions).var())
    return found


def learn(policy: Policy, read: Observations, actions: torch.Tensor, steps: int) -> None:
    tokens = policy.tokenizer.encode(actions)
    optimizer = torch.optim.AdamW(policy.net.parameters(), 1e-3, weight_decay=0.0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 50) * max(0.05, 1 - step / steps)
        keys = sample_keys(0, step, torch.arange(len(read)))
        loss = policy.loss(read, tokens, actions, SampleRandom(keys)).total
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(policy.net.parameters(), 1.0)
        optimizer.step()


def mse(policy: Policy, read: Observations, actions: torch.Tensor) -> float:
    generated = policy.generate_once(read, torch.Generator().manual_seed(0))
    error = policy.actions.normalize(generated.chunk) - policy.actions.normalize(actions)
    return float(error.square().mean())


if __name__ == "__main__":
    main(tyro.cli(Options, args=sys.argv[1:]))
