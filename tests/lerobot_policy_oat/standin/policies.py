"""Of `lerobot.configs`, `lerobot.optim` and `lerobot.policies`."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tests.lerobot_policy_oat.standin.constants import ACTION, OBS_STATE


class FeatureType(str, Enum):
    STATE = "STATE"
    VISUAL = "VISUAL"
    ENV = "ENV"
    ACTION = "ACTION"
    REWARD = "REWARD"
    LANGUAGE = "LANGUAGE"


class NormalizationMode(str, Enum):
    MIN_MAX = "MIN_MAX"
    MEAN_STD = "MEAN_STD"
    IDENTITY = "IDENTITY"
    QUANTILES = "QUANTILES"
    QUANTILE10 = "QUANTILE10"


@dataclass
class PolicyFeature:
    type: FeatureType
    shape: tuple[int, ...]


@dataclass
class PreTrainedConfig:
    n_obs_steps: int = 1
    input_features: dict[str, PolicyFeature] | None = field(default_factory=dict)
    output_features: dict[str, PolicyFeature] | None = field(default_factory=dict)
    device: str | None = None
    use_amp: bool = False
    use_peft: bool = False
    push_to_hub: bool = True
    repo_id: str | None = None
    private: bool | None = None
    tags: list[str] | None = None
    license: str | None = None
    pretrained_path: Path | None = None

    _choices: typing.ClassVar[dict[str, type]] = {}

    def __post_init__(self) -> None:
        self.device = self.device or "cpu"

    @classmethod
    def register_subclass(cls, name: str, choice_type: Any = None) -> Callable[[type], type]:
        def register(made: type) -> type:
            PreTrainedConfig._choices[name] = made
            return made

        return register

    @classmethod
    def get_choice_class(cls, name: str) -> type:
        return cls._choices[name]

    @property
    def type(self) -> str:
        return next(name for name, made in self._choices.items() if made is type(self))

    @property
    def robot_state_feature(self) -> PolicyFeature | None:
        found = (self.input_features or {}).get(OBS_STATE)
        return found if found is not None and found.type is FeatureType.STATE else None

    @property
    def image_features(self) -> dict[str, PolicyFeature]:
        given = self.input_features or {}
        return {key: ft for key, ft in given.items() if ft.type is FeatureType.VISUAL}

    @property
    def action_feature(self) -> PolicyFeature | None:
        found = (self.output_features or {}).get(ACTION)
        return found if found is not None and found.type is FeatureType.ACTION else None

    def _save_pretrained(self, save_directory: Path) -> None:
        values = {"type": self.type, **_encoded(self)}
        (save_directory / "config.json").write_text(json.dumps(values))

    @classmethod
    def from_pretrained(
        cls,
        pretrained_name_or_path: str | Path,
        *,
        force_download: bool = False,
        resume_download: bool | None = None,
        proxies: dict[Any, Any] | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        **policy_kwargs: Any,
    ) -> Any:
        if cls.__name__ != "PreTrainedConfig":
            raise TypeError("draccus takes the type of a configuration for a field of it")
        values = json.loads((Path(pretrained_name_or_path) / "config.json").read_text())
        return _decoded(cls.get_choice_class(values.pop("type")), values)


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _encoded(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _encoded(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encoded(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _decoded(kind: Any, value: Any) -> Any:
    options = typing.get_args(kind)
    if type(None) in options:
        return None if value is None else _decoded(options[0], value)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{key: _decoded(hints[key], item) for key, item in value.items()})
    origin = typing.get_origin(kind)
    if origin is dict:
        return {key: _decoded(options[1], item) for key, item in value.items()}
    if origin in (tuple, list):
        return origin(_decoded(options[0], item) for item in value)
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum | Path) else value


# lerobot.optim


@dataclass
class AdamWConfig:
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2
    grad_clip_norm: float = 10.0


@dataclass
class CosineDecayWithWarmupSchedulerConfig:
    num_warmup_steps: int
    num_decay_steps: int
    peak_lr: float
    decay_lr: float


# lerobot.policies


class PreTrainedPolicy(nn.Module):
    config_class: Any
    name: Any

    def __init__(self, config: PreTrainedConfig, *inputs: Any, **kwargs: Any) -> None:
        super().__init__()
        self.config = config

    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        card_kwargs: dict[str, Any] | None = None,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        self._save_pretrained(Path(save_directory))
        return None

    def _save_pretrained(self, save_directory: Path) -> None:
        from safetensors.torch import save_model

        self.config._save_pretrained(save_directory)
        save_model(self, str(save_directory / "model.safetensors"))

    @classmethod
    def from_pretrained(
        cls,
        pretrained_name_or_path: str | Path,
        *,
        config: PreTrainedConfig | None = None,
        force_download: bool = False,
        resume_download: bool | None = None,
        proxies: dict[Any, Any] | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        strict: bool = False,
        **kwargs: Any,
    ) -> Any:
        raise NotImplementedError

    def get_optim_params(self) -> Any: ...

    def reset(self) -> None: ...

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any] | None]: ...

    def predict_action_chunk(self, batch: dict[str, Tensor], **kwargs: Any) -> Tensor: ...

    def select_action(self, batch: dict[str, Tensor], **kwargs: Any) -> Tensor: ...
