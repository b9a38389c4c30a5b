"""Trainings on one, two and four processes: do they learn the same, and go on for one another?

    python -m benchmarks.processes                       every case, and 20 kills
    python -m benchmarks.processes --only light --kills 3

The processes talk by gloo on a CPU, with what `accelerate launch` sets for the two files of
`configs/accelerate`. They are forked from this one, which has imported everything and computed
nothing, so that a case takes seconds. Policies are tiny and have random weights.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml  # type: ignore[import-untyped]
from safetensors.torch import load_file

import oatkit
from benchmarks.markdown import table
from benchmarks.record import write_result
from oatkit.jobs.policy_training import PolicyJob
from oatkit.policies import LightConfig, Policy, VlmConfig, policy_for_dataset
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.train import TrainConfig, read_log, train
from oatkit.train.checkpoint import Checkpoints
from oatkit.train.train_config import Precision

SEED = 0
STEPS, BATCH = 4, 8
KILLS, KILLED_STEPS = 20, 24
CONFIGS = Path(__file__).parents[1] / "configs/accelerate"
TASKS = ("open the door", "close the door")
SIZE = ScratchSize(width=16, num_layers=2, vision_width=16, vision_layers=1)
LIGHT = LightConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    dropout=0.1,
    image_size=40,
    crop_size=36,
    image_channels=4,
    num_points=4,
)
POLICIES = ("light", "vlm-ar", "vlm-tc")


@dataclass(frozen=True)
class Case:
    """A training: of what, by how many processes, and how they share."""

    policy: str
    config: str = "ddp"
    """Name of a file in `configs/accelerate`."""
    processes: int = 1
    lora_rank: int = 0
    precision: Precision = "float32"

    @property
    def alone(self) -> Case:
        """The same training on one process."""
        return replace(self, config="ddp", processes=1)

    @property
    def name(self) -> str:
        trained = f"lora-{self.lora_rank}" if self.lora_rank else "all"
        return f"{self.policy}-{trained}-{self.precision}-{self.config}-{self.processes}"


def cases(policies: tuple[str, ...] = POLICIES) -> Iterator[Case]:
    """All cases on several processes."""
    for policy in policies:
        for lora_rank in (0,) if policy == "light" else (0, 2):
            for precision in ("float32", "bfloat16"):
                for config in ("ddp", "fsdp"):
                    for processes in (2, 4):
                        yield Case(policy, config, processes, lora_rank, precision)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument("--kills", type=int, default=KILLS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        results = {
            "cases": [compare(case, folder) for case in cases(tuple(options.only))],
            "handed_on": [hand_on(policy, folder) for policy in options.only],
            "killed": [kill_often(policy, folder, options.kills) for policy in options.only],
        }
    settings = {"steps": STEPS, "batch_size": BATCH, "killed_steps": KILLED_STEPS}
    write_result("processes", seed=SEED, settings=settings, results=results)


def prepare(folder: Path) -> None:
    """Write a dataset, a tokenizer and a backbone, in a process of its own."""

    def work() -> None:
        rng = np.random.default_rng(SEED)
        (folder / "data").mkdir(parents=True)
        for index in range(6):
            state = rng.normal(size=(20, 5)).cumsum(axis=0)
            images = rng.integers(256, size=(20, 20, 24, 3), dtype=np.uint8)
            columns = {"action": np.tanh(state[:, :3]), "observation.state": state}
            columns["observation.images.front"] = images
            path = folder / "data" / f"{index}.npz"
            np.savez(path, **columns, task=TASKS[index % 2])
        dataset = oatkit.open_dataset(folder / "data")
        small: dict[str, Any] = {
            "num_tokens": 4,
            "levels": (5, 4),
            "width": 16,
            "num_layers": 1,
            "num_heads": 2,
        }
        oatkit.train_tokenizer(
            dataset,
            "oat-pow2",
            folder / "tokenizer",
            preset="tiny",
            horizon=8,
            train={"steps": 2},
            **small,
        )
        write_scratch("smolvlm", folder / "backbone", SIZE, TASKS)

    _wait([_fork(work, folder / "prepare.txt")], folder)


def run(case: Case, folder: Path, out: Path, steps: int = STEPS) -> None:
    """Train to the end, from the last checkpoint that is in `out`."""
    _wait(start(case, folder, out, steps), out)


def start(case: Case, folder: Path, out: Path, steps: int) -> list[int]:
    """Start the processes of a case; gives their ids."""
    out.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]

    def rank(number: int) -> Callable[[], None]:
        def work() -> None:
            os.environ.update(_environment(case, number, port))
            learn(case, folder, out, steps)

        return work

    return [_fork(rank(number), out / f"rank-{number}.txt") for number in range(case.processes)]


def learn(case: Case, folder: Path, out: Path, steps: int) -> None:
    """Train in this process, together with the others of the case."""
    from accelerate.state import PartialState

    torch.set_num_threads(1)
    dataset = oatkit.open_dataset(folder / "data", cache_dir=out / "cache")
    train_set, held_out = dataset.split(fraction=0.2, seed=SEED)
    torch.manual_seed(SEED)
    job = PolicyJob(_policy(case, folder, dataset), train_set, held_out)
    config = TrainConfig(
        steps=steps,
        batch_size=BATCH,
        learning_rate=1e-3,
        ema=0.5,
        precision=case.precision,
        checkpoint_every=2,
        log_every=1,
        evaluate_every=steps,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # float32, though the launcher says bf16
        train(job, config, out, show_progress=False)
    assert PartialState().num_processes == case.processes


def _policy(case: Case, folder: Path, dataset: Any) -> Policy:
    tokenizer = oatkit.load_tokenizer(folder / "tokenizer")
    if case.policy == "light":
        return policy_for_dataset(LIGHT, tokenizer, dataset, cameras=("front",))
    config = VlmConfig(
        case.policy,
        expert=ExpertConfig(width=16, num_steps=2),
        # frozen weights, those under adapters, are of the type that is computed in
        backbone=BackboneOptions(
            lora_rank=case.lora_rank, dtype=case.precision if case.lora_rank else "float32"
        ),
    )
    return policy_for_dataset(
        config, tokenizer, dataset, backbone=str(folder / "backbone"), cameras=("front",)
    )


def _environment(case: Case, rank: int, port: int) -> dict[str, str]:
    """What `accelerate launch` and `torchrun` set for a process."""
    values = yaml.safe_load((CONFIGS / f"{case.config}.yaml").read_text())
    found = {"ACCELERATE_USE_CPU": "true"}
    if case.processes > 1:
        found |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost"}
        found |= {"MASTER_PORT": str(port)}
        found |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(case.processes))
        found["ACCELERATE_USE_FSDP"] = str(values["distributed_type"] == "FSDP").lower()
        found["ACCELERATE_MIXED_PRECISION"] = values["mixed_precision"]
    return found


def _fork(work: Callable[[], None], log: Path) -> int:
    """Run something in a process of its own, which writes what it says to a file."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(file, stream)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - it is written down, and the exit code says so
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(children: list[int], folder: Path) -> None:
    """Wait for processes; if one fails, the others are ended as a launcher does."""
    left, failed = set(children), False
    while left:
        child, status = os.wait()
        left.discard(child)
        if status and not failed:
            failed = True
            for other in left:
                os.kill(other, signal.SIGKILL)
    if failed:
        said = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.txt")))
        raise RuntimeError(f"a process of {folder} failed:\n{said}")


def compare(case: Case, folder: Path) -> dict[str, Any]:
    """Differences of a case from the same training on one process."""
    out, alone = folder / case.name, folder / case.alone.name
    for one, path in ((case.alone, alone), (case, out)):
        if not path.exists():
            run(one, folder, path)
    return asdict(case) | differences(out, alone)


def differences(out: Path, alone: Path) -> dict[str, float]:
    """Largest differences of two runs: of losses, and of weights as a share of the largest."""
    losses = [np.array([row["loss"] for row in read_log(path)]) for path in (out, alone)]
    assert len(losses[0]) == len(losses[1])
    return {
        "loss": float(np.abs(losses[0] / losses[1] - 1).max()),
        "weights": _weight_difference(out, alone),
    }


def weights_of(out: Path) -> dict[str, torch.Tensor]:
    """The weights of a run's last checkpoint."""
    path = Checkpoints(out / "checkpoints", {}).latest()
    assert path is not None
    return load_file(path / "model.safetensors")


def _weight_difference(out: Path, alone: Path) -> float:
    found, wanted = weights_of(out), weights_of(alone)
    assert found.keys() == wanted.keys()
    largest = max(float(value.abs().max()) for value in wanted.values())
    return max(float((found[key] - wanted[key]).abs().max()) for key in wanted) / largest


def hand_on(policy: str, folder: Path) -> dict[str, Any]:
    """Four processes write a checkpoint half-way; two, and one, go on from it."""
    found: dict[str, Any] = {"policy": policy}
    four = Case(policy, "fsdp", 4)
    if not (folder / four.name).exists():
        run(four, folder, folder / four.name)
    for reader in (Case(policy, "ddp", 2), Case(policy, "fsdp", 2), four.alone):
        out = folder / f"{reader.name}-after-4"
        shutil.copytree(folder / four.name, out)
        shutil.rmtree(out / f"checkpoints/step-{STEPS:08d}")
        run(reader, folder, out)
        where = "one" if reader.processes == 1 else f"{reader.config} {reader.processes}"
        found[where] = differences(out, folder / four.alone.name)
    return found


def kill_often(
    policy: str, folder: Path, kills: int, processes: int = 2, steps: int = KILLED_STEPS
) -> dict[str, Any]:
    """Kill a training again and again at a random step; is its end that of one not killed?"""
    rng = random.Random(SEED)
    case = Case(policy, "fsdp", processes)
    whole, killed = folder / f"{case.name}-whole", folder / f"{case.name}-killed"
    run(case, folder, whole, steps)
    lost = []
    for number in range(kills):
        target = (number + 1) * (steps - 4) // kills + rng.randrange(2)
        children = start(case, folder, killed, steps)
        reached = _wait_for_step(killed, target, children)
        time.sleep(rng.uniform(0, 0.05))
        for child in rng.sample(children, len(children)):
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
        lost.append(reached)
    run(case, folder, killed, steps)
    ends = [weights_of(path) for path in (whole, killed)]
    is_same = all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])
    return {"policy": policy, "kills": kills, "at": lost, "is_same": is_same}


def _wait_for_step(out: Path, target: int, children: list[int]) -> int:
    """Wait until a training has logged a step; gives the last one that it logged."""
    while True:
        rows = read_log(out) if (out / "train.jsonl").exists() else []
        if rows and rows[-1]["step"] >= target:
            return int(rows[-1]["step"])
        ended, _ = os.waitpid(children[0], os.WNOHANG)
        if ended:
            said = "\n".join(path.read_text()[-2000:] for path in out.glob("rank-*.txt"))
            raise RuntimeError(f"a process of {out} ended before step {target}:\n{said}")
        time.sleep(0.01)


def processes_table(results: dict[str, Any]) -> str:
    """The table of the docs: largest difference of the loss from one process."""
    found: dict[Any, dict[Any, str]] = {}
    for row in results["cases"]:
        key = (row["policy"], row["lora_rank"], row["precision"])
        found.setdefault(key, {})[row["config"], row["processes"]] = f"{row['loss']:.0e}"
    columns = [(config, count) for config in ("ddp", "fsdp") for count in (2, 4)]
    names = [f"{config.upper()}, {count} processes" for config, count in columns]
    rows = [
        (f"`{policy}`", "adapters" if rank else "all weights", precision, *map(cells.get, columns))
        for (policy, rank, precision), cells in found.items()
    ]
    return table(("policy", "trained", "precision", *names), rows)


if __name__ == "__main__":
    main()
