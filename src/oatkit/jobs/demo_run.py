"""`oatkit demo`: from demonstrations to a policy in the simulator, and one page that tells of it.

out/demo/metaworld       demonstrations of three tasks
out/demo/compared        a tokenizer of each kind, measured alike
out/demo/policy          the light policy on oat-pow2
out/demo/eval            its episodes at every budget, with videos
out/demo/demo.json       how long each part took, and the command that does it by hand
out/demo/report.html     all of it to look at, in one file
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from oatkit.commands.command_line import command_line
from oatkit.commands.data_make_metaworld import MakeMetaWorld
from oatkit.commands.dataset_options import DatasetOptions
from oatkit.commands.policy_eval import EvalPolicy, render_evaluation, write_report
from oatkit.commands.policy_train import TrainPolicy
from oatkit.commands.tokenizer_compare import CompareTokenizers, render_comparison
from oatkit.commands.train_options import TrainOptions
from oatkit.envs.simulator import ENVIRONMENT_STATE_KEY
from oatkit.errors import MissingExtraError
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.policy_evaluation import evaluate
from oatkit.jobs.policy_training import prepare_policy, train_policy
from oatkit.jobs.tokenizer_comparison import compare
from oatkit.measure.reports.demo_report import findings, write_demo_report
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.types import DemoRecord, DemoStage, TokenizerComparison

MIN_MINUTES = 4.0
RECORD = "demo.json"
STAGES = ("demonstrations", "tokenizers", "policy", "simulator")
POLICY_KIND = "oat-pow2"
PACKAGES = ("metaworld", "mujoco")


@dataclass(frozen=True)
class Demo:
    """Demonstrations, tokenizers, a policy, its success in the simulator, and a report of it all.

    Example:
        oatkit demo --minutes 10
    """

    out: Path = Path("out/demo")
    """Folder for everything the demo writes; the same command again goes on where it stopped."""
    minutes: float = 10.0
    """How long it may take on two idle cores, 4 or more; longer means more of everything."""


@dataclass(frozen=True)
class Plan:
    """How the minutes are spent.

    Attributes:
        tasks: What is demonstrated, and what the policy does.
        demonstrations: Of each task.
        kinds: Tokenizers.
        tokenizer_minutes: Training of each learned kind.
        policy_until: Minutes since the start by which the policy is trained.
        policy_minutes: Training of the policy at least, however long the rest took.
        episodes: Of each task and budget.
        videos: Of these.
        budgets: At which the policy acts.
        preset: Sizes of tokenizers and policy.
        horizon: Actions in a chunk.
    """

    demonstrations: int
    tokenizer_minutes: float
    policy_until: float
    policy_minutes: float
    episodes: int
    tasks: tuple[str, ...] = ("drawer-open", "door-open", "coffee-pull")
    kinds: tuple[str, ...] = ("oat", "oat-pow2", "quest", "bin", "fast", "klt")
    videos: int = 1
    budgets: tuple[int | Literal["auto"], ...] = (1, 2, 4, 8, "auto")
    preset: Literal["tiny", "small"] = "small"
    horizon: int = 32


def plan_for(minutes: float) -> Plan:
    """The plan for a demo of so many minutes."""
    if not MIN_MINUTES <= minutes < math.inf:
        raise ValueError(f"minutes is {minutes:g}, expected {MIN_MINUTES:g} or more")
    return Plan(
        demonstrations=min(200, round(5 * minutes)),
        tokenizer_minutes=round(0.12 * minutes, 3),
        policy_until=0.8 * minutes,
        policy_minutes=0.15 * minutes,
        episodes=min(50, round(2 * minutes)),
    )


def run_demo(options: Demo, console: Console) -> int:
    """Do what is not done yet, and write the report."""
    plan = plan_for(options.minutes)
    demo = _Demo(options, plan, console)
    console.print(
        f"about {options.minutes:g} minutes on two cores; the same command again goes on where "
        "it stopped",
        soft_wrap=True,
    )
    with demo.stage("demonstrations"):
        folder = make_metaworld(
            demo.demonstrations.out, demo.demonstrations.demonstrations, show_progress=True
        )
        dataset = DatasetOptions().open(str(folder))
        demo.note(num_episodes=len(dataset), num_frames=dataset.num_frames)
    with demo.stage("tokenizers"):
        comparison = demo.compare()
        console.print(render_comparison(comparison), soft_wrap=True)
    with demo.stage("policy"):
        demo.train_policy()
    with demo.stage("simulator"):
        evaluation = evaluate(
            demo.evaluation.policy,
            episodes=plan.episodes,
            budgets=plan.budgets,
            videos=plan.videos,
            out=demo.evaluation.out,
            command=command_line("policy eval", demo.evaluation, positional="policy"),
            show_progress=True,
        )
        console.print(render_evaluation(evaluation))
        write_report(evaluation, demo.evaluation.out, console)
    page = write_demo_report(demo.record, comparison, evaluation, options.out)
    minutes = sum(stage.seconds for stage in demo.record.stages) / 60
    console.rule("in short")
    for said in (*findings(comparison, evaluation), f"{minutes:.1f} minutes in all"):
        console.print(f"- {said}", markup=False, soft_wrap=True)
    console.print(f"\nopen {page} in a browser", markup=False, soft_wrap=True)
    return 0


class _Demo:
    """The options of the parts, and the record as it grows."""

    def __init__(self, options: Demo, plan: Plan, console: Console) -> None:
        out = options.out
        self._plan, self._out, self._console = plan, out, console
        self.demonstrations = MakeMetaWorld(
            out / "metaworld", Demonstrations(plan.tasks, plan.demonstrations)
        )
        self.comparison = CompareTokenizers(
            data=str(self.demonstrations.out),
            out=out / "compared",
            kinds=plan.kinds,
            preset=plan.preset,
            minutes=plan.tokenizer_minutes,
            horizon=plan.horizon,
            num_tokens=max(b for b in plan.budgets if isinstance(b, int)),
            levels=(8, 5, 5, 5),
        )
        self.evaluation = EvalPolicy(
            policy=out / "policy",
            out=out / "eval",
            episodes=plan.episodes,
            budgets=plan.budgets,
            videos=plan.videos,
        )
        begun = DemoRecord(
            settings={"minutes": options.minutes, **asdict(plan)},
            versions=_versions(),
            machine=f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        )
        self.record = read_or_begin(out / RECORD, begun)

    @property
    def training(self) -> TrainPolicy:
        return TrainPolicy(
            data=str(self.demonstrations.out),
            out=self._out / "policy",
            tokenizer=self.comparison.out / POLICY_KIND,
            preset=self._plan.preset,
            training=TrainOptions(steps=self.record.policy_steps or None),
            columns=DatasetOptions(state_key=(ENVIRONMENT_STATE_KEY,)),
        )

    def compare(self) -> TokenizerComparison:
        """Train and measure the tokenizers that are not compared yet."""
        wanted = self.comparison
        return compare(
            DatasetOptions().open(wanted.data),
            wanted.kinds,
            wanted.out,
            preset=wanted.preset,
            horizon=wanted.horizon,
            num_tokens=wanted.num_tokens,
            levels=wanted.levels,
            minutes=wanted.minutes,
            train={"seed": wanted.seed},
            command=self._command("tokenizers"),
            show_progress=True,
        )

    def train_policy(self) -> None:
        """Train for the time that is left before the simulator's turn, unless it is trained."""
        if (self._out / "policy/config.json").exists():
            self._console.print("trained before")
            return
        what = (self.training.columns.open(self.training.data), self.training.tokenizer)
        preset = self._plan.preset
        if not self.record.policy_steps:
            gone = sum(stage.seconds for stage in self.record.stages) / 60
            minutes = max(self._plan.policy_until - gone, self._plan.policy_minutes)
            steps = prepare_policy(*what, preset=preset).affordable_steps(minutes)
            self.note(policy_steps=steps)
        changes = {"steps": self.record.policy_steps}
        train_policy(*what, out=self.training.out, preset=preset, train=changes, show_progress=True)

    def note(self, **facts: Any) -> None:
        self.record = replace(self.record, **facts)
        write_record(self._out / RECORD, self.record)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a part, and note what it took, also when it is stopped."""
        self._console.rule(f"part {STAGES.index(name) + 1} of {len(STAGES)}: {name}")
        stages = {s.name: s for s in self.record.stages}
        before = stages.get(name, DemoStage(name, "", 0.0, is_done=False))
        start, is_done = time.monotonic(), False
        try:
            yield
            is_done = True
        finally:
            if not before.is_done:
                seconds = before.seconds + time.monotonic() - start
                stages[name] = DemoStage(name, self._command(name), seconds, is_done)
                self.note(stages=tuple(stages.values()))

    def _command(self, name: str) -> str:
        """What does the same by hand."""
        if name == "demonstrations":
            return command_line("data make metaworld", self.demonstrations)
        if name == "tokenizers":
            return command_line("tokenizer compare", self.comparison)
        if name == "policy":
            return command_line("policy train", self.training)
        return command_line("policy eval", self.evaluation, positional="policy")


def _versions() -> dict[str, str]:
    try:
        return package_versions(*PACKAGES)
    except PackageNotFoundError as error:
        raise MissingExtraError("metaworld") from error
