"""A short policy on the tokens of every kind of a comparison: what a policy can learn of them.

What a tokenizer leaves says little about how well its ids are predicted. So the same small policy
is trained from the state for the same steps on each kind, and its own chunks are measured.

out/policies/oat-pow2    the policy on each kind; a stopped one goes on there
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.jobs.policy_training import PolicyTraining, prepare_policy
from oatkit.measure.policy_metrics import measure_policy
from oatkit.nn.device import Device
from oatkit.policies import load_policy
from oatkit.presets import policy_preset
from oatkit.storage.records import write_record
from oatkit.types import PolicyMeasurement, TokenizerComparison

MAX_CHUNKS = 512
"""Maximum number of held-out chunks that a policy is measured on, spread evenly."""
FOLDER = "policies"


@dataclass(frozen=True)
class PolicyProbe:
    """How the policies of a comparison are trained.

    Attributes:
        dataset: Demonstrations with a state.
        minutes: Training time that the slowest kind may take; all train for as many steps.
        preset: Preset of the light policy, whose steps are never exceeded.
        seed: Seed of the initial weights and the samples.
        device: Where they are trained and measured.
    """

    dataset: Dataset
    minutes: float
    preset: str
    seed: int = 0
    device: Device = "cpu"

    def __post_init__(self) -> None:
        if self.minutes <= 0:
            raise ValueError(f"policy_minutes is {self.minutes}, expected more than 0")
        if self.dataset.state is None:
            raise ValueError(
                f"{self.dataset.path} has no state for a policy to read: name its columns with "
                "--state-key (state_key=), or leave --policy-minutes (policy_minutes) out"
            )

    def run(
        self,
        comparison: TokenizerComparison,
        kinds: Sequence[str],
        path: Path,
        console: Console,
    ) -> TokenizerComparison:
        """Train and measure a policy on each of the kinds that has none yet.

        Args:
            comparison: What was found of the tokenizers.
            kinds: Names of those to probe.
            path: The record, which grows kind by kind; artifacts of the kinds lie beside it.
            console: Where to say what happens.
        """
        out = path.parent
        missing = [
            kind.measurement.kind
            for kind in comparison.kinds
            if kind.measurement.kind in kinds and kind.policy is None
        ]
        if comparison.policy_minutes is None:
            steps = self._equal_steps(missing, out, console)
            comparison = replace(comparison, policy_minutes=self.minutes, policy_steps=steps)
            write_record(path, comparison)
        elif comparison.policy_minutes != self.minutes:
            raise ArtifactError(
                f"the policies in {out} were trained with policy_minutes "
                f"{comparison.policy_minutes:g}, now {self.minutes:g}: use the same, or another "
                "--out"
            )
        for number, name in enumerate(missing, 1):
            console.rule(f"a policy on {name} ({number} of {len(missing)})")
            found = self._measure(name, comparison.policy_steps, out, console)
            grown = (
                replace(kind, policy=found) if kind.measurement.kind == name else kind
                for kind in comparison.kinds
            )
            comparison = replace(comparison, kinds=tuple(grown))
            write_record(path, comparison)
        return comparison

    def _equal_steps(self, kinds: Sequence[str], out: Path, console: Console) -> int:
        """The number of steps that the slowest kind has time for, at most those of the preset."""
        preset = policy_preset(self.preset).train.steps
        counts = {
            kind: self._prepare(out / kind, preset).affordable_steps(self.minutes, self.device)
            for kind in kinds
        }
        slowest = min(counts, key=lambda kind: counts[kind])
        steps = min(counts[slowest], preset)
        console.print(
            f"policies: {steps:,} steps on each kind, so that {slowest}, the slowest, takes at "
            f"most {self.minutes:g} minutes",
            soft_wrap=True,
        )
        return steps

    def _prepare(self, tokenizer: Path, steps: int) -> PolicyTraining:
        recipe = {"steps": steps, "seed": self.seed}
        return prepare_policy(self.dataset, tokenizer, "light", preset=self.preset, train=recipe)

    def _measure(self, kind: str, steps: int, out: Path, console: Console) -> PolicyMeasurement:
        folder = out / FOLDER / kind
        training = self._prepare(out / kind, steps)
        if (folder / "config.json").exists():
            console.print("trained before")
            policy = load_policy(folder)
        else:
            how: dict[str, Any] = {"device": self.device, "show_progress": not console.quiet}
            policy = training.run(folder, **how, is_calibrated=False)
        console.print("measuring")
        train_set, held_out = self.dataset.split(**training.split)
        policy.to(self.device)
        return measure_policy(
            policy,
            held_out,
            train_set=train_set,
            path=str(folder),
            split="val",
            max_chunks=MAX_CHUNKS,
        )
