"""The names that an option may take, and help that names kinds: all derived from the tables.

Type checkers see `str`; tyro sees the names of today's tables.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from tyro.extras import literal_type_from_choices

from oatkit.jobs.demo_plan import DEMO_TASKS
from oatkit.jobs.paper_tables import TABLES
from oatkit.jobs.reproduction_scales import MADE_IN, SCALES
from oatkit.policies.policy_table import POLICIES
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.vlm_config import OBJECTIVES
from oatkit.presets import POLICY_PRESETS, TOKENIZER_PRESETS, VLM_PRESETS
from oatkit.tokenizers import KINDS
from oatkit.tokenizers.klt import KltConfig
from oatkit.tokenizers.quest import QuestConfig
from oatkit.train import TRACKERS, TrainConfig
from oatkit.train.optimizers import OPTIMIZERS
from oatkit.train.train_config import Precision

CORRECTION = "Learn a correction of what the tables decode to, and keep it where it helps"
"""Help of `--correct`, which two commands have."""


def kinds_with(*settings: str) -> tuple[str, ...]:
    """The kinds of tokenizers whose configs have all these settings."""
    return tuple(name for name, kind in KINDS.items() if set(settings) <= {*kind.settings})


def config_defaults(kind: str) -> dict[str, Any]:
    """The settings of a kind's config, and their defaults; `MISSING` where there is none."""
    return {field.name: field.default for field in fields(KINDS[kind].config)}  # type: ignore[arg-type]


def kind_help(setting: str, text: str, default: str | None = None) -> str:
    """The help of a flag that only some kinds of tokenizers have.

    Args:
        setting: Name of the config's field.
        text: What it is.
        default: Default in words; the one that the configs share, if None.
    """
    kinds = kinds_with(setting)
    assert kinds, f"no kind has the setting {setting}"
    if default is None:
        values = {config_defaults(kind)[setting] for kind in kinds}
        (value,) = values - {MISSING}
        default = " ".join(map(str, value if isinstance(value, tuple) else (value,)))
    return f"{text} ({', '.join(kinds)}); {default} by default."


def policy_help() -> str:
    """The help of a flag that names a policy."""
    return "; ".join(f"{name}: {kind.summary}" for name, kind in POLICIES.items()) + "."


if TYPE_CHECKING:
    KindName = str
    SweptKindName = str
    TokenizerPresetName = str
    PolicyPresetName = str
    PolicyName = str
    ObjectiveName = str
    DemoSimulatorName = str
    PaperTableName = str
    ScaleName = str
    ScaleSimulatorName = str
    FamilyName = str
    OptimizerName = str
    TrackerName = str
    PrecisionName = str
    LearningRateScheduleName = str
    ReconstructionName = str
    CellsName = str
else:
    KindName = literal_type_from_choices(KINDS)
    SweptKindName = literal_type_from_choices(kinds_with("levels", "num_tokens", "nested_dropout"))
    TokenizerPresetName = literal_type_from_choices(TOKENIZER_PRESETS)
    PolicyPresetName = literal_type_from_choices(dict.fromkeys((*POLICY_PRESETS, *VLM_PRESETS)))
    PolicyName = literal_type_from_choices(POLICIES)
    ObjectiveName = literal_type_from_choices(OBJECTIVES)
    DemoSimulatorName = literal_type_from_choices(DEMO_TASKS)
    PaperTableName = literal_type_from_choices(TABLES)
    ScaleName = literal_type_from_choices(SCALES)
    ScaleSimulatorName = literal_type_from_choices(MADE_IN)
    FamilyName = literal_type_from_choices(FAMILIES)
    OptimizerName = literal_type_from_choices(OPTIMIZERS)
    TrackerName = literal_type_from_choices(TRACKERS)
    PrecisionName = Precision
    LearningRateScheduleName = get_type_hints(TrainConfig)["schedule"]
    ReconstructionName = get_type_hints(QuestConfig)["reconstruction"]
    CellsName = get_type_hints(KltConfig)["cells"]
