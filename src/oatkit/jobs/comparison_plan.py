"""What kinds of tokenizers are compared on, and how each is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data import Dataset
from oatkit.jobs.policy_probe import PolicyProbe
from oatkit.jobs.representation_comparison import RepresentationPlan
from oatkit.jobs.tokenizer_training import TokenizerTraining, prepare_tokenizer, tokenizer_config
from oatkit.nn.device import Device, resolve_device
from oatkit.presets import tokenizer_preset
from oatkit.tokenizers.fast import published_digest
from oatkit.tokenizers.kind_table import kind_named
from oatkit.train import TrainConfig, asked_settings, resolve_config
from oatkit.train.precision import with_precision
from oatkit.train.progress_bar import two_digits

MIN_STEPS_TO_ESTIMATE = 500
"""Number of training steps from which it is worth finding out how long they take."""


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, and how every kind is trained.

    Attributes:
        dataset: Demonstrations to learn from.
        kinds: Names of the kinds.
        preset: Size and training recipe of the learned kinds.
        sizes: Settings that a kind gets if it has them: `horizon`, `num_tokens`, `levels`,
            `correct`.
        split: How episodes are split: `held_out`, `split_seed`.
        minutes: Time to train the slowest kind, or to fit one, if the recipe does not say the
            steps.
        train: How the learned kinds are trained, where not as the preset says.
        device: Where they are trained and measured.
        represented: The dataset in other representations.
        published: Folder of FAST's universal tokenizer; one is fitted by default.
    """

    dataset: Dataset
    kinds: tuple[str, ...]
    preset: str
    sizes: Mapping[str, Any]
    split: Mapping[str, Any]
    minutes: float | None
    train: TrainConfig | Mapping[str, Any] | None
    device: Device = "cpu"
    represented: RepresentationPlan = RepresentationPlan()
    published: Path | None = None

    def check(self) -> None:
        """Refuse wrong settings now, not after an hour of training."""
        if not self.kinds:
            raise ValueError("name at least one kind with --kinds (kinds)")
        if self.minutes is not None and self.minutes <= 0:
            raise ValueError(f"--minutes is {self.minutes}, expected more than 0")
        if self.minutes is not None and asked_settings(self.train).get("steps") is not None:
            raise ValueError("give --steps or --minutes, not both")
        for kind in self.kinds:
            self.codec_config(kind)
        if "correct" in self.sizes and not any("correct" in self.kind_sizes(k) for k in self.kinds):
            raise ValueError("--correct (correct=True) is for klt, which is not among the kinds")

    def settings(self) -> dict[str, Any]:
        """What must be the same when a comparison goes on."""
        asked = asked_settings(self.train)
        changed = {name: asked.get(name) for name in ("steps", "batch_size", "learning_rate")}
        recipe = self.recipe()
        return {
            **{"preset": self.preset, "minutes": self.minutes, "seed": recipe.seed},
            **changed,
            **self.sizes,
            **self.split,
            "fingerprint": self.dataset.fingerprint,
            "action_dims": self.dataset.action.names,
            **({"actions": str(self.dataset.transform)} if self.dataset.transform else {}),
            **({"published": published_digest(self.published)} if self.published else {}),
            **{f"train.{name}": value for name, value in recipe.settings().items()},
            "train.precision": with_precision(recipe, None, resolve_device(self.device)).precision,
        }

    def recipe(self, steps: int | None = None) -> TrainConfig:
        """How a learned kind is trained, in as many steps as the recipe says or as are given."""
        changes: dict[str, Any] = {"steps": steps} if steps else {}
        if isinstance(self.train, TrainConfig):
            return replace(self.train, **changes)
        preset = tokenizer_preset(self.preset).train
        return resolve_config({**(self.train or {}), **changes}, preset)

    def codec_config(self, kind: str) -> Any:
        """The config of a kind."""
        sizes = self.kind_sizes(kind)
        return tokenizer_config(kind, self.dataset.represented_dim, self.preset, **sizes)

    def steps(self, known: Mapping[str, int], console: Console) -> dict[str, int]:
        """Numbers of steps of the kinds that have none yet: the same for all that are trained.

        Args:
            known: Kind to steps that were decided before, which are kept.
            console: Where to say what was decided.
        """
        missing = [kind for kind in self.kinds if kind not in known]
        learned = [kind for kind in missing if kind_named(kind).is_learned]
        steps = self._equal_steps(learned, known, console) if learned else 0
        return {kind: steps if kind in learned else 0 for kind in missing}

    def _equal_steps(self, kinds: Sequence[str], known: Mapping[str, int], console: Console) -> int:
        """The steps of those before, or what the slowest kind has time for."""
        if self.minutes is None:
            return self.recipe().steps
        before = [steps for steps in known.values() if steps]
        if before:
            console.print(f"{min(before):,} steps, as the kinds that were trained before")
            return min(before)
        counts = {k: self._prepared(k).affordable_steps(self.minutes, self.device) for k in kinds}
        slowest = min(counts, key=lambda kind: counts[kind])
        console.print(
            f"{counts[slowest]:,} steps of each trained kind, so that {slowest}, the slowest, "
            f"takes about {self.minutes:g} minutes",
            soft_wrap=True,
        )
        return counts[slowest]

    def published_of(self, kind: str) -> Path | None:
        """Folder of the published tokenizer that a kind is taken from, if any."""
        return self.published if kind == "fast" else None

    def fitting_minutes(self, kind: str) -> float | None:
        """Time to fit a kind; None where it is trained or taken as it is."""
        is_fitted = not kind_named(kind).is_learned and self.published_of(kind) is None
        return self.minutes if is_fitted else None

    def say_duration(self, kinds: Sequence[str], console: Console) -> None:
        """Say beforehand how long these kinds take, where it is more than a minute."""
        if self.minutes is not None:
            minutes, about = dict.fromkeys(kinds, self.minutes), "at most about"
        elif self.recipe().steps < MIN_STEPS_TO_ESTIMATE:
            return
        else:
            console.print("estimating how long it takes")
            minutes = {k: self._prepared(k).estimate_seconds(self.device) / 60 for k in kinds}
            about = "about"
        total = sum(minutes.values())
        if total > 1:
            parts = ", ".join(f"{kind} {two_digits(minutes[kind])}" for kind in kinds)
            note = f"{about} {two_digits(total)} minutes ({parts}), and measuring comes on top"
            console.print(note, soft_wrap=True)

    def _prepared(self, kind: str) -> TokenizerTraining:
        return prepare_tokenizer(self.dataset, self.codec_config(kind), self.recipe(), **self.split)

    def probe(self, minutes: float | None) -> PolicyProbe | None:
        """How policies are trained on the kinds for so many minutes; None if they are not."""
        if minutes is None:
            return None
        preset = "tiny" if self.preset == "tiny" else "small"
        return PolicyProbe(self.dataset, minutes, preset, self.recipe().seed, self.device)

    def kind_sizes(self, kind: str) -> dict[str, Any]:
        """Those of the sizes that are settings of a kind."""
        known = kind_named(kind).settings
        return {name: value for name, value in self.sizes.items() if name in known}
