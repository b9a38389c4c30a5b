"""Vision-language policies from demonstrations to closed loop, on backbones with random weights.

    python -m benchmarks.vlm_pipeline            # hours on two cores
    python -m benchmarks.vlm_pipeline --tiny     # minutes; the numbers mean nothing

Demonstrations of easy MetaWorld tasks with images and the robot's own state, without the positions
of the objects: what is to be done is in the image and in the text. Policies of both families are
trained token by token, in powers of two, and co-trained; one family is co-trained under every
tokenizer and without tokens. All meet the same goals as a random policy and as the replayed mean
demonstration. Then images, and instructions, are replaced by those of other moments and tasks. A
part that is finished is not done again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.record import write_result
from oatkit.data import Dataset, open_dataset
from oatkit.envs.kinds import simulator_kind
from oatkit.envs.simulator import STATE_KEY, evaluation_seed
from oatkit.evaluate.episodes import Evaluation, Job, Rollout
from oatkit.evaluate.statistics import success_rate
from oatkit.measure.policy import measure_slots, observations_to_measure
from oatkit.nn.random import SampleRandom, sample_keys
from oatkit.policies import Prediction, VlmPolicy, load_policy
from oatkit.policies.backbones.family import ScratchSize
from oatkit.policies.observation import IMAGES, TASK, Observations
from oatkit.recipes.make_metaworld import MakeMetaWorld, make_metaworld
from oatkit.recipes.train_policy import TrainPolicy, train_policy
from oatkit.recipes.train_tokenizer import TrainTokenizer, train_tokenizer
from oatkit.types import SuccessRate

CAMERA = "corner2"
KINDS = ("oat", "bin", "fast", "quest", "acodec")
FAMILIES = ("qwen3-vl", "paligemma2")


@dataclass(frozen=True)
class Options:
    """Of the whole run."""

    out: Path = Path("out/vlm_pipeline")
    tasks: tuple[str, ...] = ("drawer-close", "button-press-topdown")
    demonstrations: int = 100
    """Of each task."""
    image_size: int = 64
    horizon: int = 16
    tokenizer_steps: int = 4000
    steps: int = 6000
    batch_size: int = 32
    episodes: int = 50
    """Of each task, to evaluate."""
    overfit_steps: int = 600
    seed: int = 0
    tiny: bool = False
    """Only show that everything runs."""

    @property
    def backbone(self) -> ScratchSize:
        """Small enough for a CPU."""
        if self.tiny:
            return ScratchSize()
        return ScratchSize(
            width=128,
            num_layers=4,
            num_heads=4,
            num_kv_heads=2,
            head_dim=32,
            vision_width=96,
            vision_layers=3,
            image_size=self.image_size,
            patch_size=8,
        )


def main(options: Options) -> None:
    if options.tiny:
        options = replace(
            options,
            out=options.out / "tiny",
            demonstrations=5,
            image_size=32,
            tokenizer_steps=20,
            steps=8,
            batch_size=4,
            episodes=1,
            overfit_steps=4,
        )
    dataset = open_dataset(make_demonstrations(options))
    checkpoints = make_backbones(options, dataset)
    tokenizers = {kind: make_tokenizer(options, kind) for kind in (*KINDS, "oat-pow2")}
    runs = {
        f"vlm-ar/{kind}/{family}": ("vlm-ar", kind, family)
        for family in FAMILIES
        for kind in ("oat", "oat-pow2")
    }
    runs |= {f"vlm-tc/oat/{family}": ("vlm-tc", "oat", family) for family in FAMILIES}
    runs |= {f"vlm-tc/{kind}/{FAMILIES[0]}": ("vlm-tc", kind, FAMILIES[0]) for kind in KINDS}
    runs[f"vlm-flow/{FAMILIES[0]}"] = ("vlm-flow", "oat", FAMILIES[0])
    results: dict[str, Any] = {"baselines": cached(options, "baselines", baselines, dataset)}
    results["policies"] = {}
    for name, (objective, kind, family) in runs.items():
        policy = make_policy(options, name, objective, tokenizers[kind], checkpoints[family])
        results["policies"][name] = cached(options, name, evaluate, policy, dataset)
    results["overfitting"] = cached(
        options, "overfitting", overfit, dataset, tokenizers["oat-pow2"], checkpoints
    )
    settings = json.loads(json.dumps(asdict(options), default=str))
    if options.tiny:
        print(json.dumps(results, indent=2))
        return
    write_result("vlm_pipeline", seed=options.seed, settings=settings, results=results)


def cached(options: Options, name: str, work: Callable[..., Any], *args: Any) -> Any:
    """What `work` gives, kept as JSON."""
    path = options.out / "results" / f"{name.replace('/', '_')}.json"
    if not path.exists():
        found = work(options, *args)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1))
    return json.loads(path.read_text())


# Making


def make_demonstrations(options: Options) -> Path:
    out = options.out / "demonstrations"
    config = MakeMetaWorld(
        out,
        options.tasks,
        options.demonstrations,
        options.seed,
        images=True,
        image_size=(options.image_size, options.image_size),
        shadows=False,
    )
    return make_metaworld(config)


def make_backbones(options: Options, dataset: Dataset) -> dict[str, Path]:
    # here, so that simulator processes, which import this file, do not import transformers
    from oatkit.policies.backbones.loading import write_scratch

    folder = options.out / "backbones"
    for family in FAMILIES:
        if not (folder / family / "config.json").exists():
            write_scratch(family, folder / family, options.backbone, dataset.tasks, options.seed)
    return {family: folder / family for family in FAMILIES}


def make_tokenizer(options: Options, kind: str) -> Path:
    out = options.out / "tokenizers" / kind
    if not (out / "config.json").exists():
        train_tokenizer(
            TrainTokenizer(
                data=str(options.out / "demonstrations"),
                out=out,
                kind=kind,  # type: ignore[arg-type]
                preset="tiny" if options.tiny else "small",
                horizon=options.horizon,
                steps=options.tokenizer_steps,
                seed=options.seed,
            ),
            Console(),
        )
    return out


def make_policy(
    options: Options, name: str, objective: str, tokenizer: Path, checkpoint: Path
) -> VlmPolicy:
    out = options.out / "policies" / name.replace("/", "_")
    if not (out / "config.json").exists():
        train_policy(
            TrainPolicy(
                data=str(options.out / "demonstrations"),
                out=out,
                tokenizer=tokenizer,
                policy=objective,  # type: ignore[arg-type]
                backbone=str(checkpoint),
                preset="tiny" if options.tiny else "small",
                cameras=(CAMERA,),
                steps=options.steps,
                batch_size=options.batch_size,
                seed=options.seed,
                workers=0 if options.tiny else 1,
            ),
            Console(),
        )
    policy = load_policy(out)
    assert isinstance(policy, VlmPolicy)
    return policy


# Closed loop


class Misled:
    """A policy that sees the images of another moment, or reads another instruction."""

    def __init__(self, policy: VlmPolicy, dataset: Dataset, what: str) -> None:
        self.spec = policy.spec
        self._policy = policy
        self._what = what
        self._rng = np.random.default_rng(0)
        chunks = dataset.chunks(policy.tokenizer.horizon, cameras=(CAMERA,))
        some = self._rng.integers(len(chunks), size=min(256, len(chunks)))
        self._images = chunks.batch(some)[f"{IMAGES}{CAMERA}"]

    def predict_action_chunk(self, observation: Mapping[str, Any], **rest: Any) -> Prediction:
        changed = dict(observation)
        if self._what == "images":
            count = len(observation[f"{IMAGES}{CAMERA}"])
            picked = self._rng.integers(len(self._images), size=count)
            changed[f"{IMAGES}{CAMERA}"] = self._images[picked]
        else:
            changed[TASK] = [
                next(task for task in self.spec.tasks if task != own) for own in observation[TASK]
            ]
        return self._policy.predict_action_chunk(changed, **rest)


def evaluate(options: Options, policy: VlmPolicy, dataset: Dataset) -> dict[str, Any]:
    """Success with intervals, as it is and misled, and how well tokens are predicted."""
    _, held_out = dataset.split(
        fraction=policy.extras["split"]["held_out"], seed=policy.extras["split"]["seed"]
    )
    found: dict[str, Any] = {"success": closed_loop(options, policy)}
    for what in ("images", "text"):
        found[f"success, other {what}"] = closed_loop(options, Misled(policy, dataset, what))
    if policy.kind == "vlm-tc":
        policy.head = "tokens"
        found["success of the token head"] = closed_loop(options, policy)
    if "tokens" in policy.heads:
        found |= token_accuracy(policy, held_out)
    return found


def closed_loop(options: Options, policy: Any) -> dict[str, Any]:
    simulator = without_shadows()
    rollout = Rollout(
        execute=options.horizon // 2, seed=options.seed, top_k=10, state_keys=(STATE_KEY,)
    )
    budget = getattr(policy, "schedule", None) or policy._policy.schedule
    jobs = [
        Job(task, budget.num_tokens, episode)
        for task in options.tasks
        for episode in range(options.episodes)
    ]
    ended = list(Evaluation(policy, simulator, rollout, num_workers=2).run(jobs))
    return rates((episode.task, episode.is_success) for episode in ended)


def without_shadows() -> Any:
    """Images are rendered as those of the demonstrations were."""
    from functools import partial

    from oatkit.envs.metaworld import MetaWorld

    return replace(simulator_kind("metaworld"), make=partial(MetaWorld, shadows=False))


def token_accuracy(policy: VlmPolicy, held_out: Dataset) -> dict[str, float]:
    """Of held-out chunks, as they are and with images or instructions of other chunks."""
    observations, actions, _ = observations_to_measure(policy, held_out, 512)
    order = torch.randperm(len(observations), generator=torch.Generator().manual_seed(0))
    images = tuple(pixels[order] for pixels in observations.images)
    other = {
        "token accuracy": observations,
        "token accuracy, other images": replace(observations, images=images),
        "token accuracy, other text": replace(observations, task=observations.task[order]),
    }
    return {name: accuracy(policy, seen, actions) for name, seen in other.items()}


def accuracy(policy: VlmPolicy, observations: Observations, actions: torch.Tensor) -> float:
    _, slots = measure_slots(policy, observations, actions)
    return sum(s.share * s.accuracy for s in slots) / sum(s.share for s in slots)


def baselines(options: Options, dataset: Dataset) -> dict[str, Any]:
    """A random policy, and the mean of the demonstrations replayed step by step."""
    rng = np.random.default_rng(options.seed)
    simulator = without_shadows()
    low, high = simulator.bounds
    found = {}
    for name in ("random", "mean demonstration"):
        ended: list[tuple[str, bool]] = []
        for task in options.tasks:
            mean_TA = mean_demonstration(dataset, simulator.tasks[task])
            environment = simulator.make(task, None)
            for episode in range(options.episodes):
                environment.reset(evaluation_seed(options.seed, episode))
                ended.append((task, False))
                for step in range(simulator.max_steps):
                    action = mean_TA[min(step, len(mean_TA) - 1)]
                    if name == "random":
                        action = rng.uniform(low, high).astype(np.float32)
                    result = environment.step(action.clip(low, high))
                    if result.is_success or result.is_over:
                        ended[-1] = (task, result.is_success)
                        break
            environment.close()
        found[name] = rates(iter(ended))
    return found


def mean_demonstration(dataset: Dataset, instruction: str) -> NDArray[np.float32]:
    episodes = [e.actions for e in dataset if e.task == instruction]
    longest = max(len(actions) for actions in episodes)
    padded = [np.pad(a, ((0, longest - len(a)), (0, 0)), mode="edge") for a in episodes]
    return np.asarray(np.mean(padded, axis=0), np.float32)


def rates(ended: Iterator[tuple[str, bool]]) -> dict[str, Any]:
    """Of all episodes and of each task."""
    by_task: dict[str, list[bool]] = {}
    for task, is_success in ended:
        by_task.setdefault(task, []).append(is_success)
    everything = [success for own in by_task.values() for success in own]
    found: dict[str, SuccessRate] = {"all": success_rate(sum(everything), len(everything))}
    found |= {task: success_rate(sum(own), len(own)) for task, own in by_task.items()}
    return {name: asdict(rate) for name, rate in found.items()}


# Overfitting


def overfit(
    options: Options, dataset: Dataset, tokenizer: Path, checkpoints: dict[str, Path]
) -> dict[str, Any]:
    """16 chunks are learnt by heart: all tokens by AR, the chunks themselves by co-training."""
    from oatkit.policies import VlmConfig
    from oatkit.policies.vlm_config import ExpertConfig
    from oatkit.tokenizers import load_tokenizer

    found: dict[str, Any] = {}
    for family, checkpoint in checkpoints.items():
        for objective in ("vlm-ar", "vlm-tc"):
            torch.manual_seed(options.seed)
            config = VlmConfig(objective, expert=ExpertConfig(width=128))
            policy = VlmPolicy.for_dataset(
                config, str(checkpoint), load_tokenizer(tokenizer), dataset, cameras=(CAMERA,)
            )
            chunks = dataset.chunks(options.horizon, cameras=(CAMERA,))
            batch = chunks.batch(np.linspace(0, len(chunks) - 1, 16).astype(int))
            read, _ = policy.read(batch)
            actions = torch.from_numpy(batch["action"])
            learn(policy, read, actions, options.overfit_steps)
            found[f"{objective}/{family}"] = {
                "token accuracy": accuracy(policy, read, actions),
                **({"mse, normalised": mse(policy, read, actions)} if policy.net.expert else {}),
            }
    return found


def learn(policy: VlmPolicy, read: Observations, actions: torch.Tensor, steps: int) -> None:
    tokens = policy.tokenizer.encode(actions)
    optimizer = torch.optim.AdamW(policy.net.parameters(), 1e-3, weight_decay=0.0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 50) * max(0.05, 1 - step / steps)
        keys = sample_keys(0, step, torch.arange(len(read)))
        loss = policy.loss(read, tokens, actions, SampleRandom(keys))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(policy.net.parameters(), 1.0)
        optimizer.step()


def mse(policy: VlmPolicy, read: Observations, actions: torch.Tensor) -> float:
    drawn, _ = policy.draw_once(read, torch.Generator().manual_seed(0))
    error = policy.actions.normalize(drawn.chunk) - policy.actions.normalize(actions)
    return float(error.square().mean())


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(tyro.cli(Options, args=sys.argv[1:]))
