"""LIBERO from state: demonstrations of a scripted expert, and what a light policy makes of them.

    L=.venv-libero/bin  O=out/libero                  # `make test-libero` makes that environment
    $L/python -m benchmarks.libero demonstrate --suite libero-object --episodes 4
    oatkit tokenizer train --data $O/libero-object --kind oat-pow2 --out $O/oat-pow2
    oatkit policy train --data $O/libero-object --tokenizer $O/oat-pow2 --out $O/policy \\
        --state-key observation.state observation.environment_state --steps 4000
    oatkit serve $O/policy
    $L/oatkit policy eval --remote ws://127.0.0.1:8000 --env libero-object --temperature 0 \\
        --episodes 10 --out $O/libero-object.eval
    python -m benchmarks.libero record --suite libero-object --assets repaired --policy $O/policy

Attempts are kept, so that a run that was stopped goes on. The recipe of a policy is kept as its
artifact has it; of rows that were stored before it was, the policy's steps alone are known.

Shape letters: A action.
"""

from __future__ import annotations

import itertools
import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import numpy as np

from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.envs.libero import ACTION_DIM, ARM_NOISE, FPS, LIBERO, TASKS, Libero
from oatkit.envs.libero_experts import GRIPS, PickAndPlace
from oatkit.envs.simulator import demonstration_seed
from oatkit.jobs.dataset_folder import require_plan
from oatkit.shards.shard_folder import PLAN
from oatkit.storage.atomic_write import atomic_write
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

if TYPE_CHECKING:
    from oatkit.policies.light.light_config import LightConfig

NAMES = {"libero-object": "libero", "libero-spatial": "libero_spatial"}
"""Suite that the expert is for to the name of its results."""
FEATURES = {
    STATE: Feature((8,)),
    ENVIRONMENT_STATE: Feature((28,)),
    "action": Feature((ACTION_DIM,)),
}
STEPS_AFTER_SUCCESS = 5
MIN_FAILURES = 3
"""Failed attempts after which a task is left out, if more of its attempts failed than succeeded."""


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("demonstrate", "record"))
    parser.add_argument("--suite", choices=list(NAMES), default="libero-object")
    parser.add_argument("--episodes", type=int, default=5, help="successes of each task")
    parser.add_argument("--out", type=Path, default=Path("out/libero"))
    parser.add_argument("--assets", choices=("official", "repaired"), default="official")
    parser.add_argument(
        "--policy", type=Path, help="artifact that was evaluated, of which to keep its recipe"
    )
    args = parser.parse_args()
    {"demonstrate": demonstrate, "record": record}[args.what](args)


def demonstrate(args: Namespace) -> None:
    """Try every task; then write those that have their successes as a dataset of LeRobot."""
    attempts = args.out / f"{args.suite}.attempts"
    require_same_plan(args.suite, attempts)
    for task in TASKS[args.suite]:
        make_attempts(args.suite, task, attempts / task, args.episodes)
    root = args.out / args.suite
    if root.exists():
        rmtree(root)
    writer = LeRobotWriter(root, fps=FPS, features=FEATURES, robot_type="panda")
    for task, instruction in TASKS[args.suite].items():
        paths = sorted((attempts / task).glob("*.npz"))[: args.episodes]
        if len(paths) < args.episodes:
            print(f"left out, because the expert fails: {task}")
            continue
        for path in paths:
            with np.load(path) as columns:
                writer.add_episode({key: columns[key] for key in FEATURES}, task=instruction)
    writer.close()
    print(f"wrote {root}")


def require_same_plan(suite: str, attempts: Path) -> None:
    """Refuse to go on with attempts of another expert, or that began in another way."""
    plan = {"arm_noise": ARM_NOISE, "grip": repr(GRIPS[suite])}
    if attempts.exists():
        require_plan(attempts / PLAN, attempts, plan)
        return
    attempts.mkdir(parents=True)
    (attempts / PLAN).write_text(json.dumps(plan, indent=2))


def make_attempts(suite: str, task: str, folder: Path, num_wanted: int) -> None:
    """Run the expert on one placement after the other, until it has solved or failed enough."""
    folder.mkdir(parents=True, exist_ok=True)
    environment: Libero | None = None
    for number in itertools.count():
        solved, failed = counts(folder)
        if solved >= num_wanted or (failed >= MIN_FAILURES and failed > solved):
            break
        if any(folder.glob(f"{number:03d}.*")):
            continue
        environment = environment or Libero(suite, task)
        columns = run_expert(environment, PickAndPlace(GRIPS[suite]), demonstration_seed(0, number))
        print(task, number, "failed" if columns is None else f"{len(columns['action'])} steps")
        if columns is None:
            (folder / f"{number:03d}.failed").touch()
            continue
        with atomic_write(folder / f"{number:03d}.npz") as path:
            np.savez(path, **columns)
    if environment is not None:
        environment.close()


def counts(folder: Path) -> tuple[int, int]:
    """The numbers of attempts that succeeded and that failed."""
    return len(list(folder.glob("*.npz"))), len(list(folder.glob("*.failed")))


def run_expert(environment: Libero, expert: PickAndPlace, seed: int) -> dict[str, Any] | None:
    """The columns of one episode until some steps after success; None if it fails."""
    rows, num_left = [], None
    observation, is_over = environment.reset(seed), False
    while not is_over and num_left != 0:
        action_A = expert.act(observation)
        rows.append({**observation, "action": action_A})
        result = environment.step(action_A)
        observation, is_over = result.observation, result.is_over
        if num_left is not None:
            num_left -= 1
        elif result.is_success:
            num_left = STEPS_AFTER_SUCCESS
    if num_left is None:
        return None
    return {key: np.stack([row[key] for row in rows]) for key in FEATURES}


def record(args: Namespace) -> None:
    """Keep how often the expert succeeded, and the policy's evaluation where there is one."""
    from benchmarks.record import write_result  # where git and torch are

    expert = {}
    for task in TASKS[args.suite]:
        folder = args.out / f"{args.suite}.attempts" / task
        solved, failed = counts(folder)
        expert[task] = {"solved": solved, "failed": failed}
    results: dict[str, Any] = {"expert": expert}
    evaluated = args.out / f"{args.suite}.eval/evaluation.json"
    if evaluated.exists():
        evaluation = json.loads(evaluated.read_text())
        kept = ("settings", "kind", "versions", "budgets", "seconds", "command")
        results["policy"] = {key: evaluation[key] for key in kept}
        if args.policy is not None:
            results["policy"]["recipe"] = recipe(args.policy)
    settings = {
        **{"suite": args.suite, "episodes": args.episodes, "assets": args.assets},
        "arm_noise": ARM_NOISE,
    }
    write_result(NAMES[args.suite], seed=0, settings=settings, results=results)


def recipe(folder: Path) -> dict[str, Any]:
    """How a light policy and its tokenizer were trained, by the policy's artifact."""
    from benchmarks.closed_loop import policy_recipe
    from benchmarks.timing import trained_seconds
    from oatkit.policies import load_policy

    policy = load_policy(folder)
    trained, tokenizer = policy.extras["train"], policy.tokenizer
    return {
        "preset": preset_of(policy.net.config),
        "steps": trained["steps"],
        "batch_size": trained["batch_size"],
        "seconds": trained_seconds(folder, policy),
        **policy_recipe(policy),
        "tokenizer": asdict(tokenizer.codec.config),
        "tokenizer_steps": tokenizer.extras.get("train", {}).get("steps", 0),
    }


def preset_of(config: LightConfig) -> str | None:
    """The preset that a light policy has its sizes from; the rest of its recipe is told apart."""
    from oatkit.presets import POLICY_PRESETS

    own = {name: getattr(config, name) for name in ("code_smoothing", "offset_layers")}
    found = (name for name, one in POLICY_PRESETS.items() if replace(one.net, **own) == config)
    return next(found, None)


if __name__ == "__main__":
    assert NAMES.keys() <= LIBERO.keys()
    main()
