"""The whole story on a small scale: demonstrations, tokenizers, a policy in the simulator, a page.

out/demo/metaworld       demonstrations of three tasks (robosuite, where that is asked for)
out/demo/compared        tokenizers, measured alike
out/demo/policy          the light policy on oat-pow2
out/demo/eval-half       its episodes by the paper's protocol: half of each chunk, all tokens
out/demo/eval            its episodes at every budget, looking four times as often, with videos
out/demo/demo.json       how long each part took, and the command that does it by hand
out/demo/report.html     all of it to look at, in one file
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data import Dataset, open_dataset
from oatkit.envs.simulator_table import simulator_kind
from oatkit.evaluation.worker_processes import num_cores
from oatkit.jobs.demo_plan import LEVELS, POLICY_KIND, DemoPlan
from oatkit.jobs.evaluation_comparison import with_comparisons
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.policy_evaluation import RECORD as EVALUATION
from oatkit.jobs.policy_evaluation import evaluate
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.robosuite_demonstrations import RobosuiteDemonstrations, make_robosuite
from oatkit.jobs.tokenizer_comparison import compare
from oatkit.measure.reports.demo_report import write_demo_report
from oatkit.measure.reports.evaluation_report import write_evaluation_report
from oatkit.nn.device import Device, resolve_device
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.types import DemoRecord, DemoStage, PolicyEvaluation, TokenizerComparison
from oatkit.types.observation_keys import ENVIRONMENT_STATE

RECORD = "demo.json"

Describe = Callable[[str], str]
"""Gives the command that does a stage by hand."""


class DemoRun:
    """The stages of a demo, one method each, to be called in their order.

    A stage that was done before costs nothing, one that was stopped goes on.

    Args:
        out: Folder of everything that the demo writes.
        minutes: How long the demo may take.
        plan: How the minutes are spent.
        describe: What the record says about how to do a stage by hand.
        device: Where networks run; see `resolve_device`.
        show_progress: Whether to print what happens and to show bars.

    Attributes:
        record: What was done so far, as it is in the folder.
    """

    def __init__(
        self,
        out: Path,
        minutes: float,
        plan: DemoPlan,
        *,
        describe: Describe = lambda stage: "",
        device: Device = "auto",
        show_progress: bool = False,
    ) -> None:
        self._out = out
        self._plan = plan
        self._describe = describe
        self._device = resolve_device(device)
        self._show_progress = show_progress
        begun = DemoRecord(
            settings={"minutes": minutes, **asdict(plan)},
            versions=package_versions() | simulator_kind(plan.simulator).package_versions(),
            machine=f"{num_cores()} cores, {platform.machine()}, {platform.system()}",
        )
        self.record = read_or_begin(out / RECORD, begun)

    def make_demonstrations(self) -> Dataset:
        """Let the scripted experts demonstrate the tasks."""
        plan, how = self._plan, {"show_progress": self._show_progress}
        with self._stage("demonstrations"):
            if plan.simulator == "robosuite":
                robosuite = RobosuiteDemonstrations(plan.tasks, plan.demonstrations)
                make_robosuite(self._out / plan.simulator, robosuite, **how)
            else:
                metaworld = Demonstrations(plan.tasks, plan.demonstrations)
                make_metaworld(self._out / plan.simulator, metaworld, **how)
            dataset = self._dataset()
            self._note(num_episodes=len(dataset), num_frames=dataset.num_frames)
        return dataset

    def compare_tokenizers(self) -> TokenizerComparison:
        """Train and measure a tokenizer of every kind."""
        plan = self._plan
        with self._stage("tokenizers"):
            return compare(
                self._dataset(),
                plan.kinds,
                self._out / "compared",
                preset=plan.preset,
                horizon=plan.horizon,
                num_tokens=plan.num_tokens,
                levels=LEVELS,
                train={"seed": 0, "steps": plan.tokenizer_steps},
                device=self._device,
                command=self._describe("tokenizers"),
                show_progress=self._show_progress,
            )

    def train_policy(self) -> None:
        """Train the policy on the tokens of its kind."""
        out = self._out / "policy"
        with self._stage("policy"):
            if (out / "config.json").exists():
                Console(highlight=False, quiet=not self._show_progress).print("trained before")
                return
            train_policy(
                self._dataset(state_key=(ENVIRONMENT_STATE,)),
                self._out / "compared" / POLICY_KIND,
                out=out,
                preset=self._plan.preset,
                train={"steps": self._plan.policy_steps},
                device=self._device,
                show_progress=self._show_progress,
            )

    def evaluate_half_chunks(self) -> PolicyEvaluation:
        """Count the policy's successes by the paper's protocol, with all tokens."""
        with self._stage("half chunks"):
            return self._evaluate("half chunks", "eval-half")

    def evaluate_policy(self, half_chunks: PolicyEvaluation) -> PolicyEvaluation:
        """Count the policy's successes at every budget, compared with those of half chunks."""
        out, plan = self._out / "eval", self._plan
        with self._stage("simulator"):
            found = self._evaluate(
                "simulator", "eval", budgets=plan.budgets, execute=plan.execute, videos=plan.videos
            )
            evaluation = with_comparisons(found, (half_chunks,))
            write_record(out / EVALUATION, evaluation)
            write_evaluation_report(evaluation, out)
        return evaluation

    def write_report(self, comparison: TokenizerComparison, evaluation: PolicyEvaluation) -> Path:
        """Write the page that tells of everything; returns its path."""
        return write_demo_report(self.record, comparison, evaluation, self._out)

    def _dataset(self, **columns: Any) -> Dataset:
        folder = self._out / self._plan.simulator
        return open_dataset(folder, show_progress=self._show_progress, **columns)

    def _evaluate(self, stage: str, folder: str, **options: Any) -> PolicyEvaluation:
        return evaluate(
            self._out / "policy",
            self._plan.simulator,
            episodes=self._plan.episodes,
            out=self._out / folder,
            device=self._device,
            command=self._describe(stage),
            show_progress=self._show_progress,
            **options,
        )

    def _note(self, **facts: Any) -> None:
        self.record = replace(self.record, **facts)
        write_record(self._out / RECORD, self.record)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Note what a stage took, also when it is stopped."""
        stages = {s.name: s for s in self.record.stages}
        before = stages.get(name, DemoStage(name, "", 0.0, is_done=False))
        start, is_done = time.monotonic(), False
        try:
            yield
            is_done = True
        finally:
            if not before.is_done:
                seconds = before.seconds + time.monotonic() - start
                stages[name] = DemoStage(name, self._describe(name), seconds, is_done)
                self._note(stages=tuple(stages.values()))
