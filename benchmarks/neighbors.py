"""LeRobot's ACT and Diffusion Policy on our demonstrations, goals and protocol.

    python -m benchmarks.neighbors [--only act diffusion] [--seeds 0 1 2] [--cpu-minutes 20]
        [--trial-minutes 2] [--episodes 50] [--data PATH] [--tiny]
        [--python .venv-lerobot-0.4.4/bin/python]

They read what the light policy reads (MetaWorld's whole state and the task), are trained on the
same nine tenths of the demonstrations and act in the episodes of `benchmarks.control`.
`make test-lerobot` makes the environment that trains them and answers for them
(`benchmarks/neighbors_worker.py`); the simulators and the count of successes are those of every
other policy.

Time is CPU time of one thread. The row "oat, 2500 steps" of `benchmarks.control` takes 12.7 minutes
of an idle core for its tokenizer (8000 steps) and 4.8 for its policy. Each training of a neighbor
has both, though our tokenizer is trained once for all seeds, and 2.5 minutes more, because CPU time
on a shared machine buys some 10 % less than on an idle core. The trials below are not counted. The
row "oat", of 10,000 steps, takes about a quarter of an hour more.

Settings are chosen in their favor: sizes that a CPU trains for thousands of steps, the learning
rates of such sizes, a cosine to 0, averaged weights and a normalized state, none of which LeRobot
does by itself, and temporal ensembling, which ACT was published with, as one of the rules. Every
setting of `SETTINGS` is tried for the trial minutes; the one that predicts held-out actions best is
trained: the first seed for the CPU minutes, further ones for as many steps as it had, so that they
do not depend on the machine. Rows are saved rule by rule: the same command again goes on, and
`--again` measures finished rules again.
"""

from __future__ import annotations

import json
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.closed_loop import solved
from benchmarks.control import GOALS
from benchmarks.neighbors_worker import pack, unpack
from benchmarks.policy_table import HORIZON, open_with_full_state
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED, metaworld
from oatkit.data import Dataset, Normalizer
from oatkit.envs.simulator_table import simulator_kind
from oatkit.errors import OatkitError
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.evaluation.success_statistics import summarize
from oatkit.jobs.row_runs import folder_name
from oatkit.policies import ActingPolicy
from oatkit.policies.generation.random_rows import Generators, random_rows
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types import Budget, Execution, Prediction, Sampling, Schedule
from oatkit.types.observation_keys import ENVIRONMENT_STATE

NAME = "neighbors"
WORKER = Path(__file__).with_name("neighbors_worker.py")
LEROBOT = Path(".venv-lerobot-0.4.4/bin/python")
HELD_OUT = 0.1
BATCH_SIZE = 64


STEPS = {f"{HORIZON // part} steps": Execution(HORIZON // part) for part in (2, 4, 8)}
"""Half of a chunk, as in the paper, a quarter and an eighth."""
RULES = {**STEPS, "4 steps, blended": Execution(4, blend=0.1)}
"""Ways to execute chunks."""


@dataclass(frozen=True)
class Setting:
    """A policy of LeRobot as it is trained.

    Attributes:
        kind: LeRobot's name of it.
        config: What differs from LeRobot's defaults.
        learning_rate: Highest learning rate.
        frames: Number of frames that it reads.
        calls: Number of passes of its network for a chunk.
    """

    kind: str
    config: dict[str, Any]
    learning_rate: float = 1e-3
    frames: int = 1
    calls: int = 1


def _act(width: int, **options: Any) -> Setting:
    sizes = {"dim_model": width, "n_heads": width // 32, "dim_feedforward": 4 * width}
    whole = {"chunk_size": HORIZON, "n_action_steps": HORIZON}
    return Setting("act", {**whole, **sizes, "pretrained_backbone_weights": None, **options})


def _diffusion(*down_dims: int) -> Setting:
    """A chunk begins at the frame before the current one, so one action less is left to execute."""
    acting = {"noise_scheduler_type": "DDIM", "num_inference_steps": 10}
    whole = {"horizon": HORIZON, "n_action_steps": HORIZON - 1}
    sizes = {"down_dims": list(down_dims), "diffusion_step_embed_dim": 64}
    return Setting("diffusion", {**whole, **sizes, **acting}, frames=2, calls=10)


SETTINGS = {
    "act": {
        "width 128": _act(128),
        "width 128, no VAE": _act(128, use_vae=False),
        "width 256, no VAE": _act(256, use_vae=False),
    },
    "diffusion": {
        "channels 32, 64, 128": _diffusion(32, 64, 128),
        "channels 64, 128, 256": _diffusion(64, 128, 256),
    },
}
TINY = {
    "act": {"width 32": _act(32), "width 32, no VAE": _act(32, use_vae=False)},
    "diffusion": {"channels 8, 16": _diffusion(8, 16)},
}


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    if not args.python.exists():
        raise OatkitError(
            f"{args.python} is not there: `make test-lerobot` installs LeRobot beside oatkit, or "
            "name its Python by --python"
        )
    dataset = open_with_full_state(args.data or metaworld())
    arrays = write_arrays(dataset, OUT / NAME / "demonstrations.npz")
    for kind in args.only:
        setting = choose_setting(kind, arrays, args)
        for seed in args.seeds:
            measure_row(kind, setting, seed, dataset, arrays, args)


def parse(argv: list[str] | None) -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2], help="of the training")
    parser.add_argument("--cpu-minutes", type=float, default=20.0, help="of the first training")
    parser.add_argument("--trial-minutes", type=float, default=2.0, help="CPU time of a trial")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    parser.add_argument("--python", type=Path, default=LEROBOT, help="Python that has LeRobot")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes and seconds, as a test")
    parser.add_argument("--again", action="store_true", help="measure finished rules again")
    args = parser.parse_args(argv)
    keep_apart(args.tiny)
    if args.tiny:
        args.cpu_minutes, args.trial_minutes, args.episodes = 0.02, 0.01, 2
    return args


def write_arrays(dataset: Dataset, path: Path) -> Path:
    """The demonstrations as plain arrays, split as for every other policy."""
    found: dict[str, NDArray[Any]] = {"num_tasks": np.array(len(dataset.tasks))}
    parts = dataset.split(HELD_OUT, seed=0)
    for name, part in zip(("train", "held_out"), parts, strict=True):
        lengths = [len(episode) for episode in part]
        ends = np.cumsum(lengths)
        columns = {
            "state": np.concatenate([episode.state for episode in part]),
            "action": np.concatenate([episode.actions for episode in part]),
            "task": np.repeat([dataset.tasks.index(e.task) for e in part], lengths),
            "first": np.repeat(ends - lengths, lengths),
            "last": np.repeat(ends - 1, lengths),
        }
        found |= {f"{name}_{key}": column for key, column in columns.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, allow_pickle=False, **found)
    return path


def choose_setting(kind: str, arrays: Path, args: Namespace) -> str:
    """Name of the setting whose trial predicts held-out actions best."""
    settings = (TINY if args.tiny else SETTINGS)[kind]
    for name, setting in settings.items():
        results = read_results(NAME)
        tried = results.get("trials", {}).get(kind, {})
        if name not in tried:
            print(f"{kind}, {name}: a trial", flush=True)
            out = OUT / NAME / "trials" / f"{kind}-{folder_name(name)}"
            facts = train(setting, SEED, args.trial_minutes, arrays, out, args.python)
            trials = {**results.get("trials", {}), kind: {**tried, name: facts}}
            save({**results, "trials": trials}, args)
    return best_setting(read_results(NAME)["trials"][kind])


def best_setting(trials: Mapping[str, Any]) -> str:
    """Name of the setting whose trial predicted held-out actions best."""
    return min(trials, key=lambda name: trials[name]["held_out"]["mse"])


def train(
    setting: Setting,
    seed: int,
    minutes: float,
    arrays: Path,
    out: Path,
    python: Path,
    *,
    steps: int | None = None,
) -> dict[str, Any]:
    """What a training in LeRobot's environment took and reached; a finished one is not redone.

    Args:
        setting: The policy.
        seed: Of its weights and samples.
        minutes: CPU time that it trains, where no steps are given.
        arrays: The demonstrations.
        out: Folder of the trained policy.
        python: LeRobot's Python.
        steps: Number of steps that it trains instead.
    """
    if not (out / "facts.json").exists():
        out.mkdir(parents=True, exist_ok=True)
        asked = {
            "kind": setting.kind,
            "config": setting.config,
            "learning_rate": setting.learning_rate,
            "batch_size": BATCH_SIZE,
            "cpu_s": 60 * minutes,
            "steps": steps,
            "seed": seed,
        }
        (out / "settings.json").write_text(json.dumps(asked, indent=2))
        command = [*_worker(python), "train", str(arrays), str(out / "settings.json"), str(out)]
        subprocess.run(command, check=True)
    return dict(json.loads((out / "facts.json").read_text()))


def measure_row(
    kind: str, name: str, seed: int, dataset: Dataset, arrays: Path, args: Namespace
) -> None:
    """Train a policy unless it is there, and measure the rules that its row lacks."""
    label = f"{kind}, seed {seed}"
    setting = (TINY if args.tiny else SETTINGS)[kind][name]
    print(f"{label}: {name}", flush=True)
    out = OUT / NAME / folder_name(f"{label}, {name}")
    steps = steps_of_first(kind, name)
    facts = train(setting, seed, args.cpu_minutes, arrays, out, args.python, steps=steps)
    row = {
        **{
            key: facts[key]
            for key in ("kind", "lerobot", "parameters", "steps", "cpu_s", "held_out")
        },
        "seed": seed,
        "setting": name,
        "config": setting.config,
        "learning_rate": setting.learning_rate,
        "batch_size": BATCH_SIZE,
    }
    missing = [rule for rule in RULES if args.again or rule not in _rules(label)]
    for rule in (rule for rule in RULES if rule not in missing):
        print(f"{label}, {rule} is finished")
    if not missing:
        return
    with served(out, setting, dataset, args.python) as policy:
        for rule in missing:
            found = measure_rule(policy, RULES[rule], args.episodes)
            results = read_results(NAME)  # another process may have added to them
            own = {**row, "rules": {**_rules(label), rule: found}}
            rows = {**results.get("rows", {}), label: own}
            save({**results, "rows": dict(sorted(rows.items()))}, args)


def steps_of_first(kind: str, name: str) -> int | None:
    """Steps of the first finished training of a setting, or None where there is none."""
    rows = read_results(NAME).get("rows", {}).values()
    steps = (row["steps"] for row in rows if (row["kind"], row["setting"]) == (kind, name))
    return next(steps, None)


def _rules(label: str) -> dict[str, Any]:
    """The measured rules of a row."""
    return dict(read_results(NAME).get("rows", {}).get(label, {}).get("rules", {}))


def measure_rule(policy: ActingPolicy, execution: Execution, episodes: int) -> dict[str, Any]:
    """Successes by task with their intervals, and which episodes were solved."""
    simulator = simulator_kind("metaworld")
    rollout = Rollout(execution, Sampling(seed=GOALS), (ENVIRONMENT_STATE,))
    runner = EpisodeRunner(policy, simulator, rollout)
    plans = [
        EpisodePlan(task, None, episode)
        for task in simulator.default_tasks
        for episode in range(episodes)
    ]
    results = sorted(runner.run(plans), key=lambda result: (result.task, result.episode))
    found = summarize(None, results, latency_ms=runner.latencies_ms[None])
    return {**asdict(found), "solved": solved(results)}


def save(results: dict[str, Any], args: Namespace) -> None:
    asked = {name: getattr(args, name) for name in ("cpu_minutes", "trial_minutes", "episodes")}
    settings = {**asked, "horizon": HORIZON, "held_out": HELD_OUT}
    write_result(NAME, seed=SEED, settings=settings, results=results)


class NeighborPolicy:
    """A policy of LeRobot in a process of its own, an `ActingPolicy`.

    Args:
        setting: The policy.
        dataset: The demonstrations it was trained on.
        connection: Where its process answers.
    """

    def __init__(self, setting: Setting, dataset: Dataset, connection: Connection) -> None:
        as_it_is = Normalizer.fit(dataset.state_statistics(), "identity")
        self.spec = ObservationSpec(setting.frames, as_it_is, {}, dataset.tasks)
        self._setting = setting
        self._action_dim = dataset.action_dim
        self._connection = connection

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """The tensors of an observation, raw; the process normalizes them."""
        return read_observation(self.spec, observation, allow_more=allow_more)

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
        """Chunks that follow a batch of observations; random numbers are all there is to choose."""
        if (budget, schedule, deadline_ms, draws, committed) != (None, None, None, 1, None):
            raise ValueError("a policy of LeRobot has no budgets, schedules, deadlines and draws")
        read = observation if isinstance(observation, Observations) else self.read(observation)
        noise_BTA = random_rows(torch.randn, generator, len(read), HORIZON, self._action_dim)
        asked = {
            "state": read.state.numpy(),
            "task": read.task[:, None].expand(read.state.shape[:2]).numpy(),
            "noise": noise_BTA.numpy(),
        }
        self._connection.send_bytes(pack(asked))
        found = unpack(self._connection.recv_bytes())
        return without_tokens(found["chunk"], self._setting.calls, float(found["ms"]))


def without_tokens(chunk_BTA: NDArray[Any], calls: int, elapsed_ms: float) -> Prediction:
    """The prediction of a policy that has no tokens."""
    ones_B = np.ones(len(chunk_BTA), np.int64)
    return Prediction(
        chunk=chunk_BTA,
        ids=np.zeros((len(chunk_BTA), 0), np.int64),
        entropy_bits=np.zeros((len(chunk_BTA), 0), np.float32),
        budget=0 * ones_B,
        calls=calls * ones_B,
        attempts=ones_B,
        elapsed_ms=elapsed_ms,
    )


@contextmanager
def served(
    folder: Path, setting: Setting, dataset: Dataset, python: Path
) -> Iterator[NeighborPolicy]:
    """The policy of a folder, in a process that ends with the block."""
    ours, theirs = Pipe()
    number = theirs.fileno()
    command = [*_worker(python), "serve", str(folder), str(number)]
    process = subprocess.Popen(command, pass_fds=[number])
    theirs.close()
    try:
        yield NeighborPolicy(setting, dataset, ours)
    finally:
        ours.close()
        process.wait()


def _worker(python: Path) -> list[str]:
    """How the worker is run: the folder of this file, which has a `record`, is not in its path."""
    return [str(python), "-P", str(WORKER)]


if __name__ == "__main__":
    main()
