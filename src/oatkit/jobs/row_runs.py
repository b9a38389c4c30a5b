"""The one way in which a row of a table is made: its tokenizer, its policy, its episodes.

    runs = RowRuns(SCALES["small"], "small", Path("out/reproduction/small"))
    record = runs.evaluate("oat", row, place, seed=0, temperature=0.0)

`oatkit reproduce` and the scripts of `benchmarks/` run their rows by it, so that what one has
trained the other takes as it is. Whatever was stopped goes on. Steps that are not the preset's are
in the name of a folder, and so are a published `fast` and a backbone that was named; a folder that
holds another number of steps than its name says, or other demonstrations, is refused. More episodes
than before go on from those; of a folder that has more than are asked for the first ones count.

out/small/metaworld/tokenizers/small-oat-horizon32-num_tokens8-levels8555
out/small/metaworld/policies/small-light-oat-horizon32-num_tokens8-levels8555
out/small/metaworld/evaluations/small-light-oat-horizon32-num_tokens8-levels8555/oat-temperature0
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oatkit.data import Dataset
from oatkit.envs.simulator_table import simulator_kind
from oatkit.errors import ArtifactError
from oatkit.jobs.benchmark_evaluation import evaluate_benchmark
from oatkit.jobs.policy_evaluation import evaluate, first_episodes
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.reproduction_scales import Place, Scale, ready_backbone
from oatkit.jobs.tokenizer_training import train_tokenizer
from oatkit.jobs.untrained_policy import policy_config, row_steps
from oatkit.nn.device import Device
from oatkit.policies import LightConfig
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.presets import tokenizer_preset
from oatkit.storage.artifact import CONFIG
from oatkit.storage.digest import digest
from oatkit.tokenizers.fast import published_digest
from oatkit.tokenizers.kind_table import kind_named
from oatkit.types import (
    BenchmarkEvaluation,
    Budget,
    PolicyEvaluation,
    Sampling,
    Schedule,
    budget_name,
)

TOKENIZER_SEED = 0
"""Seed of every tokenizer: the policies of all seeds learn the same tokens."""


@dataclass(frozen=True)
class RowRuns:
    """What decides how rows are trained and evaluated.

    Attributes:
        scale: How large they are made.
        preset: Preset of tokenizers and policies.
        folder: Where everything goes, place by place.
        backbones: Family to a checkpoint other than the scale's.
        published: Folder of FAST's universal tokenizer; one is fitted on the data by default.
        env_kwargs: Arguments for praxis-eval's simulators.
        workers: Number of simulator processes; one per core by default.
        device: Where networks run.
        show_progress: Whether to print what happens and to show bars.
        evaluation: What evaluates a policy in a simulator of ours, by the arguments of
            `evaluate`.
    """

    scale: Scale
    preset: str
    folder: Path
    backbones: Mapping[str, str] = field(default_factory=dict)
    published: Path | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    device: Device = "auto"
    show_progress: bool = False
    evaluation: Callable[..., PolicyEvaluation] = evaluate

    def tokenizer_steps(self, row: PolicyRow) -> int | None:
        """Training steps of a row's tokenizer; None where its kind is fitted or needs none."""
        if not kind_named(row.kind).is_learned:
            return None
        own = tokenizer_preset(self.preset).train.steps
        return int(row.tokenizer_steps or self.scale.tokenizer.get("steps", own))

    def policy_steps(self, row: PolicyRow) -> int:
        """Training steps of a row's policy."""
        own = row_steps(row.policy, self.preset)
        return int(row.steps or self.scale.policy.get("steps", own))

    def _at(self, place: Place, row: PolicyRow) -> PolicyRow:
        """The row with the place's horizon, unless it has one of its own, with the steps of its
        tokenizer where they are not the preset's, and with what `fast` is taken from."""
        steps = _other(self.tokenizer_steps(row), tokenizer_preset(self.preset).train.steps)
        options = {"horizon": place.horizon, **row.options}
        published = self.published_name if row.kind == "fast" else ""
        return replace(row, options=options, tokenizer_steps=steps, published=published)

    @property
    def published_name(self) -> str:
        """Digest of FAST's universal tokenizer; empty where one is fitted."""
        return "" if self.published is None else published_digest(self.published)

    def compared_dir(self, place: Place) -> Path:
        """Where kinds of tokenizers are compared on a place."""
        return self.folder / place.name / compared_name(self.published_name)

    def tokenizer_dir(self, row: PolicyRow, place: Place) -> Path:
        """Where the tokenizer of a row is, once it is trained."""
        name = f"{self.preset}-{self._at(place, row).tokenizer_name}"
        return self.folder / place.name / "tokenizers" / name

    def policy_dir(self, row: PolicyRow, place: Place, seed: int) -> Path:
        """Where the policy of a row is, once it is trained."""
        steps = _other(self.policy_steps(row), row_steps(row.policy, self.preset))
        name = f"{self.preset}-{replace(self._at(place, row), steps=steps).policy_name}"
        named = self.backbones.get(row.family or "")
        name += f"-backbone{digest(named.encode())[:8]}" if named else ""
        return self.folder / place.name / "policies" / (f"{name}-seed{seed}" if seed else name)

    def backbone_name(self, row: PolicyRow) -> str | None:
        """The checkpoint that a row starts from; None where it has no backbone."""
        if row.family is None:
            return None
        usual = "random weights" if self.scale.backbone else FAMILIES[row.family].example
        return self.backbones.get(row.family, usual)

    def evaluation_dir(
        self, name: str, row: PolicyRow, place: Place, seed: int, temperature: float
    ) -> Path:
        """Where the episodes of a row are, once it is evaluated."""
        policy = self.policy_dir(row, place, seed).name
        executed = "" if row.execute is None else f"-execute{row.execute}"
        leaf = f"{folder_name(name)}{executed}-temperature{temperature:g}"
        return self.folder / place.name / "evaluations" / policy / leaf

    def tokenizer(self, row: PolicyRow, place: Place, dataset: Dataset | None = None) -> Path:
        """Folder of the row's tokenizer, which is trained or fitted unless it is there."""
        out, steps = self.tokenizer_dir(row, place), self.tokenizer_steps(row)
        dataset = dataset or place.open()
        if is_trained(out, steps):
            require_data(out, dataset)
        else:
            asked = {} if steps is None else {"steps": steps}
            train_tokenizer(
                dataset,
                row.kind,
                out,
                preset=self.preset,
                published=self.published if row.kind == "fast" else None,
                train={"seed": TOKENIZER_SEED, **self.scale.tokenizer, **asked},
                device=self.device,
                show_progress=self.show_progress,
                **self._at(place, row).options,
            )
        return out

    def policy(self, row: PolicyRow, place: Place, seed: int = 0) -> Path:
        """Folder of the row's policy, which is trained unless it is there."""
        out, steps = self.policy_dir(row, place, seed), self.policy_steps(row)
        dataset = place.open()
        if is_trained(out, steps, self.tokenizer_steps(row)):
            require_data(out, dataset)
            return out
        tokenizer = self.tokenizer(row, place, dataset)
        backbone = None
        if row.family is not None:
            folder = self.folder / place.name / "backbones"
            backbone = ready_backbone(row.family, self.scale, folder, dataset, self.backbones)
        config = policy_config(row.policy, self.preset)
        if isinstance(config, LightConfig):
            config = replace(config, offset_layers=row.offset_layers)
        if row.endpoints:
            config = replace(config, endpoints=row.endpoints)
        train_policy(
            dataset,
            tokenizer,
            config,
            out,
            backbone=backbone,
            preset=self.preset,
            cameras=place.cameras,
            train={**self.scale.policy, "steps": steps, "seed": seed},
            device=self.device,
            show_progress=self.show_progress,
        )
        return out

    def evaluate(
        self, name: str, row: PolicyRow, place: Place, *, seed: int = 0, temperature: float = 0.0
    ) -> PolicyEvaluation:
        """All budgets of a row in the place's simulator; its policy is trained first.

        Args:
            name: Name of the row, which its folder of episodes has.
            row: What is trained and how it is evaluated.
            place: Demonstrations and simulator.
            seed: Seed of the policy's training, and of goals and draws.
            temperature: Sampling temperature.
        """
        record = self.evaluation(
            self.policy(row, place, seed),
            place.simulator,
            budgets=row.budgets,
            out=self.evaluation_dir(name, row, place, seed, temperature),
            workers=self.workers,
            show_progress=self.show_progress,
            **self._protocol(row, seed, temperature),
        )
        # a folder may have more episodes, which another call asked for
        return first_episodes(record, self.scale.episodes, simulator_kind(place.simulator).fps)

    def evaluate_benchmark(
        self, name: str, row: PolicyRow, place: Place, *, seed: int = 0, temperature: float = 1.0
    ) -> Iterator[tuple[Budget, BenchmarkEvaluation]]:
        """The budgets of a row in the place's benchmark of praxis-eval, one by one."""
        assert place.benchmark is not None
        policy = self.policy(row, place, seed)
        out = self.evaluation_dir(name, row, place, seed, temperature)
        for budget in row.budgets or (None,):
            yield (
                budget,
                evaluate_benchmark(
                    policy,
                    place.benchmark,
                    out=out / f"budget-{budget_name(budget)}",
                    budget=budget,
                    state_keys=place.simulator_keys,
                    env_kwargs=self.env_kwargs,
                    num_parallel=self.workers or 1,
                    **self._protocol(row, seed, temperature),
                ),
            )

    def _protocol(self, row: PolicyRow, seed: int, temperature: float) -> dict[str, Any]:
        return {
            "sampling": Sampling(temperature, seed=seed),
            "schedule": Schedule(row.evaluate_by) if row.evaluate_by else None,
            "execute": row.execute,
            "decoding": row.decoding,
            "episodes": self.scale.episodes,
            "device": self.device,
        }


def _other(steps: int | None, usual: int) -> int | None:
    """The steps where they are not the usual ones."""
    return None if steps == usual else steps


def is_trained(folder: Path, steps: int | None, tokenizer_steps: int | None = None) -> bool:
    """Whether a folder holds what was trained; another number of steps is an error.

    Args:
        folder: Folder of a tokenizer or a policy.
        steps: Training steps that are asked for; None where nothing is trained.
        tokenizer_steps: The same of the tokenizer of a policy.
    """
    config = folder / CONFIG
    if not config.exists():
        return False
    found = json.loads(config.read_text()).get("train", {}).get("steps")
    if steps is not None and found != steps:
        raise ArtifactError(
            f"{folder} was trained for {found} steps and {steps} are asked for: ask for {found}, "
            "or remove the folder"
        )
    if tokenizer_steps is not None:
        is_trained(folder / "tokenizer", tokenizer_steps)
    return True


def require_data(folder: Path, dataset: Dataset) -> None:
    """Refuse what was trained on other demonstrations; what does not say its own is taken.

    Args:
        folder: Folder of a tokenizer or a policy.
        dataset: Demonstrations that are asked for.
    """
    config = json.loads((folder / CONFIG).read_text())
    split, found = config.get("split"), config.get("data", {}).get("fingerprint")
    if not split or not found:
        return
    train_set = dataset.split(split["held_out"], seed=split["seed"])[0]
    if train_set.fingerprint != found:
        raise ArtifactError(
            f"{folder} was trained on other demonstrations than {dataset.path}: name its own by "
            "--data, use another --out, or remove the folder"
        )


def compared_name(published: str) -> str:
    """Name of the folder of a comparison.

    Args:
        published: Digest of FAST's universal tokenizer; empty where one is fitted.
    """
    return f"compared-published{published}" if published else "compared"


def folder_name(row: str) -> str:
    """The name of a row without spaces and commas: `oat-no_nesting` for `oat, no nesting`."""
    return row.replace(", ", "-").replace(" ", "_")
