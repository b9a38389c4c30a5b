"""The paper's ablations in closed loop: one JSON that grows row by row.

    sweep = sweep_policy(dataset, "out/policy-sweep.json", only="levels")

`oatkit policy sweep` calls this.

out.json                                      the record
out/levels8555-horizon32-tokens8/tokenizer    what was trained, shared by the ablations
out/levels8555-horizon32-tokens8/policy
out/levels8555-horizon32-tokens8/execute16    episodes
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from rich.console import Console

from oatkit.data import Dataset
from oatkit.envs.simulator import SimulatorKind
from oatkit.envs.simulator_table import simulator_kind
from oatkit.jobs.evaluation_plan import fitting_tasks
from oatkit.jobs.policy_evaluation import evaluate
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.row_clock import RowClock
from oatkit.jobs.tokenizer_ablations import (
    HORIZONS,
    LEVELS,
    NUM_TOKENS,
    json_path,
    recipe_settings,
)
from oatkit.jobs.tokenizer_training import train_tokenizer
from oatkit.jobs.untrained_policy import policy_config, policy_recipe, row_steps
from oatkit.nn.device import Device, resolve_device
from oatkit.policies import load_policy
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.storage.artifact import require_free
from oatkit.storage.records import read_or_begin, write_record
from oatkit.train import TrainConfig, read_log, resolve_config, training_seconds
from oatkit.types import PolicyAblation, PolicyEvaluation, PolicySweep, PolicySweepRow, Sampling

LIGHT_LEVELS = (8, 5, 5, 5)


@dataclass(frozen=True)
class ClosedLoopAblation:
    """What one row of the sweep trains and evaluates.

    Attributes:
        ablation: Group of rows that it belongs to.
        execute: Number of steps of a chunk that are executed before the next query.
        horizon: Number of actions in a chunk.
        num_tokens: Number of tokens of a chunk.
        levels: FSQ levels.
    """

    ablation: PolicyAblation
    execute: int
    horizon: int = 32
    num_tokens: int = 8
    levels: tuple[int, ...] = LIGHT_LEVELS

    @property
    def name(self) -> str:
        """Name of the folder of its policy, which rows share that differ only in execution."""
        levels = "".join(map(str, self.levels))
        return f"levels{levels}-horizon{self.horizon}-tokens{self.num_tokens}"

    def is_row(self, row: PolicySweepRow) -> bool:
        """Whether a row of a record is this one."""
        return all(getattr(row, name) == value for name, value in asdict(self).items())


def closed_loop_ablations(
    only: PolicyAblation | None = None, execute: int = 8
) -> Iterator[ClosedLoopAblation]:
    """All rows of the sweep, or those of one ablation."""
    row = ClosedLoopAblation
    wanted = (only,) if only else get_args(PolicyAblation)
    sizes = [(horizon, tokens) for horizon in HORIZONS for tokens in NUM_TOKENS]
    if "horizons-half" in wanted:
        yield from (row("horizons-half", max(1, h // 2), h, tokens) for h, tokens in sizes)
    if "horizons-fixed" in wanted:
        yield from (row("horizons-fixed", execute, h, tokens) for h, tokens in sizes)
    if "levels" in wanted:
        yield from (row("levels", 16, levels=levels) for levels in LEVELS)


def sweep_policy(dataset: Dataset, out: str | os.PathLike[str], **how: Any) -> PolicySweep:
    """Train and evaluate the rows that the record lacks, writing it anew after every row.

    Args:
        dataset: Demonstrations to learn from.
        out: The record, a JSON file; what is trained goes into a folder beside it.
        how: Further arguments of `plan_policy_sweep`.
    """
    return _sweep(plan_policy_sweep(dataset, **how), json_path(out))


def plan_policy_sweep(
    dataset: Dataset,
    *,
    only: PolicyAblation | None = None,
    execute: int = 8,
    kind: str = "oat",
    preset: str = "small",
    tokenizer_steps: int | None = None,
    train: TrainConfig | Mapping[str, Any] | None = None,
    cameras: Sequence[str] = (),
    simulator: str | SimulatorKind = "metaworld",
    tasks: Sequence[str] = (),
    episodes: int = 50,
    sampling: Sampling = Sampling(),
    workers: int | None = None,
    device: Device = "auto",
    show_progress: bool = False,
) -> PolicySweepPlan:
    """What a sweep trains and evaluates; what could not be evaluated is an error here.

    Args:
        dataset: Demonstrations to learn from.
        only: One of the ablations; all by default.
        execute: Number of steps that the rows of `horizons-fixed` execute.
        kind: Name of an ordered kind of tokenizer.
        preset: Size and training recipe of tokenizers and policies.
        tokenizer_steps: Number of training steps of each tokenizer; the preset's by default.
        train: How each policy is trained: a whole `TrainConfig`, or settings that differ from the
            preset's for rows, such as `{"steps": 500}`. Its seed decides everything random.
        cameras: Cameras that the policies read; none by default.
        simulator: Name of the simulator, or a simulator of your own.
        tasks: Task names; those that the policy was trained on by default.
        episodes: Number of episodes of each task, on the same seeds.
        sampling: Rules by which ids are chosen.
        workers: Number of simulator processes; one per core by default.
        device: Where networks run: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        show_progress: Whether to print what happens and to show bars.
    """
    if not 1 <= execute <= min(HORIZONS):
        raise ValueError(f"execute is {execute}, expected 1 to {min(HORIZONS)}, the shortest chunk")
    place = _fitting_simulator(dataset, simulator, tasks, cameras)
    _require_counts(episodes=episodes, workers=workers)
    default = replace(policy_recipe("light", preset), steps=row_steps("light", preset))
    recipe = resolve_config(train, default)
    settings = {
        **{"execute": execute, "kind": kind, "preset": preset, "env": place.name},
        **{"tokenizer_steps": tokenizer_steps, "tasks": tuple(tasks), "episodes": episodes},
        **_changed_settings(sampling, cameras),
        **recipe_settings(train, recipe),
        "fingerprint": dataset.fingerprint,
        "state_keys": list(dataset.state.keys if dataset.state else ()),
    }
    device = resolve_device(device)
    how = _How(dataset, kind, preset, tokenizer_steps, recipe, (*cameras,), device, show_progress)
    protocol: dict[str, Any] = {
        **{"simulator": simulator, "tasks": tasks, "episodes": episodes, "workers": workers},
        **{"sampling": replace(sampling, seed=recipe.seed), "show_progress": show_progress},
        "device": device,
    }
    return PolicySweepPlan(tuple(closed_loop_ablations(only, execute)), settings, how, protocol)


@dataclass(frozen=True)
class _How:
    """How the policy of a row is trained, and how much of it is shown."""

    dataset: Dataset
    kind: str
    preset: str
    tokenizer_steps: int | None
    recipe: TrainConfig
    cameras: tuple[str, ...]
    device: torch.device
    show_progress: bool

    @property
    def console(self) -> Console:
        return Console(highlight=False, quiet=not self.show_progress)


@dataclass(frozen=True)
class PolicySweepPlan:
    """What a sweep trains and evaluates; made by `plan_policy_sweep`.

    Attributes:
        rows: All rows.
        settings: What decides them, as JSON values.
        how: How policies are trained.
        protocol: How they are evaluated: arguments of `evaluate`.
    """

    rows: tuple[ClosedLoopAblation, ...]
    settings: dict[str, Any]
    how: _How
    protocol: Mapping[str, Any]

    @property
    def data(self) -> str:
        """Path of the dataset."""
        return str(self.how.dataset.path)

    def make_row(
        self,
        row: ClosedLoopAblation,
        folder: Path,
        evaluation: Callable[..., PolicyEvaluation] = evaluate,
    ) -> PolicySweepRow:
        """Train the policy of a row, unless it is there, and evaluate it.

        Args:
            row: What to train and evaluate.
            folder: Where it goes.
            evaluation: What evaluates it, with the arguments of `evaluate`.
        """
        _train(row, folder, self.how)
        out = folder / f"execute{row.execute}"
        record = evaluation(folder / "policy", out=out, execute=row.execute, **self.protocol)
        return _found(row, folder, record)


def _sweep(plan: PolicySweepPlan, path: Path) -> PolicySweep:
    console = plan.how.console
    clock = RowClock(console)
    is_begun = path.exists()
    sweep = read_or_begin(path, PolicySweep(plan.data, plan.settings))
    for number, row in enumerate(plan.rows, 1):
        console.rule(f"{row.ablation}: {row.name} ({number} of {len(plan.rows)})")
        if any(row.is_row(done) for done in sweep.rows):
            console.print("done before")
            continue
        folder = path.with_suffix("") / row.name
        if not is_begun:
            for part in ("tokenizer", "policy"):
                require_free(folder / part, path)
            is_begun = True
        write_record(path, sweep)
        sweep = replace(sweep, rows=(*sweep.rows, plan.make_row(row, folder)))
        write_record(path, sweep)
        clock.made_one(len(plan.rows) - number)
    return sweep


def _train(row: ClosedLoopAblation, folder: Path, how: _How) -> None:
    """Train the tokenizer and the policy of a row, unless a row before did."""
    tokenizer, policy = folder / "tokenizer", folder / "policy"
    if (policy / "config.json").exists():
        how.console.print(f"{policy} is trained")
        return
    if not (tokenizer / "config.json").exists():
        steps = {} if how.tokenizer_steps is None else {"steps": how.tokenizer_steps}
        train_tokenizer(
            how.dataset,
            how.kind,
            tokenizer,
            preset=how.preset,
            train={"seed": how.recipe.seed, **steps},
            device=how.device,
            show_progress=how.show_progress,
            horizon=row.horizon,
            num_tokens=row.num_tokens,
            levels=row.levels,
        )
    train_policy(
        how.dataset,
        tokenizer,
        replace(policy_config("light", how.preset), offset_layers=0),  # as the paper's
        out=policy,
        preset=how.preset,
        train=how.recipe,
        cameras=how.cameras,
        device=how.device,
        show_progress=how.show_progress,
    )


def _found(row: ClosedLoopAblation, folder: Path, record: PolicyEvaluation) -> PolicySweepRow:
    """A row with the success of its policy."""
    policy = load_policy(folder / "policy")
    batch_size = policy.extras["train"]["batch_size"]
    (result,) = record.budgets
    return PolicySweepRow(
        **asdict(row),
        vocab_size=policy.tokenizer.vocab_size,
        num_parameters=sum(p.numel() for p in policy.net.parameters()),
        seconds=training_seconds(read_log(folder / "policy"), batch_size),
        result=result,
    )


def _require_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, expected 1 or more")


def _fitting_simulator(
    dataset: Dataset, named: str | SimulatorKind, tasks: Sequence[str], cameras: Sequence[str]
) -> SimulatorKind:
    """The simulator; an error unless policies of this dataset can act in it and it is installed."""
    simulator = simulator_kind(named) if isinstance(named, str) else named
    spec = ObservationSpec.for_dataset(
        dataset, history=1, cameras=cameras, reads_state=dataset.state is not None
    )
    fitting_tasks(spec, simulator, tasks, dataset.action_dim)
    simulator.checked_cameras(spec.cameras)
    simulator.package_versions()
    return simulator


def _changed_settings(sampling: Sampling, cameras: Sequence[str]) -> dict[str, Any]:
    """The temperature, and what is not the default's of other rules and of cameras; the seed is
    the run's."""
    default = asdict(Sampling())
    seen = {"cameras": tuple(cameras)} if cameras else {}
    return seen | {
        name: value
        for name, value in asdict(sampling).items()
        if name == "temperature" or (name != "seed" and value != default[name])
    }
