"""As much of LeRobot 0.4.4 as the plugin touches, for tests where LeRobot is not installed.

Written from its signatures, which `tests/lerobot/test_standin.py` compares with the real ones. The
tests of the plugin run on either.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

ACTION, OBS_STATE = "action", "observation.state"
OBS_LANGUAGE_TOKENS = "observation.language.tokens"
OBS_LANGUAGE_ATTENTION_MASK = "observation.language.attention_mask"
ACTION_TOKENS, ACTION_TOKEN_MASK = "action.tokens", "action.token_mask"
POLICY_PREPROCESSOR_DEFAULT_NAME = "policy_preprocessor"
POLICY_POSTPROCESSOR_DEFAULT_NAME = "policy_postprocessor"


# lerobot.configs


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
        if cls is not PreTrainedConfig:
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


# lerobot.policies.pi0_fast


@dataclass
class PI0FastConfig(PreTrainedConfig):
    paligemma_variant: str = "gemma_2b"
    action_expert_variant: str = "gemma_300m"
    dtype: str = "float32"
    chunk_size: int = 50
    n_action_steps: int = 50
    max_state_dim: int = 32
    max_action_dim: int = 32
    max_action_tokens: int = 256
    rtc_config: Any | None = None
    image_resolution: tuple[int, int] = (224, 224)
    empty_cameras: int = 0
    tokenizer_max_length: int = 200
    text_tokenizer_name: str = "google/paligemma-3b-pt-224"
    action_tokenizer_name: str = "physical-intelligence/fast"
    temperature: float = 0.0
    max_decoding_steps: int = 256
    fast_skip_tokens: int = 128
    validate_action_token_prefix: bool = True
    use_kv_cache: bool = True
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.IDENTITY,
            "STATE": NormalizationMode.MEAN_STD,
            "ACTION": NormalizationMode.MEAN_STD,
        }
    )
    gradient_checkpointing: bool = False
    compile_model: bool = False
    compile_mode: str = "max-autotune"
    device: str | None = None
    optimizer_lr: float = 2.5e-5
    optimizer_betas: tuple[float, float] = (0.9, 0.95)
    optimizer_eps: float = 1e-8
    optimizer_weight_decay: float = 0.01
    optimizer_grad_clip_norm: float = 1.0
    scheduler_warmup_steps: int = 1_000
    scheduler_decay_steps: int = 30_000
    scheduler_decay_lr: float = 2.5e-6

    def validate_features(self) -> None: ...


class TinyPaliGemma(nn.Module):
    """One layer of attention with a cache, in the place of the vision-language model."""

    def __init__(self, num_ids: int, width: int = 16) -> None:
        super().__init__()
        self.paligemma = nn.Module()
        self.paligemma.lm_head = nn.Linear(width, num_ids, bias=False)
        self.embedding = nn.Embedding(num_ids, width)
        self.mix = nn.Linear(width, 3 * width)

    def embed_language_tokens(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens)

    def forward(
        self,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Any = None,
        use_cache: bool | None = None,
        adarms_cond: Any = None,
    ) -> Any:
        inputs_BLD = inputs_embeds[0]
        phase_BL1 = position_ids[..., None].float() / 7
        query, key, value = (self.mix(inputs_BLD) + torch.sin(phase_BL1)).chunk(3, dim=-1)
        if past_key_values is not None:
            key = torch.cat([past_key_values[0], key], dim=1)
            value = torch.cat([past_key_values[1], value], dim=1)
        mask = attention_mask[:, 0]
        hidden = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return [inputs_BLD + hidden, None], (key, value)


class PI0FastPytorch(nn.Module):
    def __init__(
        self, config: PI0FastConfig, rtc_processor: Any = None, paligemma_tokenizer: Any = None
    ) -> None:
        super().__init__()
        self.paligemma_with_expert = TinyPaliGemma(len(paligemma_tokenizer))

    def _prepare_attention_masks_4d(self, att_2d_masks: Tensor, dtype: Any = None) -> Tensor:
        return torch.where(att_2d_masks[:, None], 0.0, -1e9).to(dtype or torch.float32)

    def embed_prefix_fast(
        self,
        images: Any,
        img_masks: Any,
        tokens: Tensor,
        masks: Tensor,
        fast_action_tokens: Any = None,
        fast_action_masks: Any = None,
    ) -> tuple[Any, ...]:
        embed = self.paligemma_with_expert.embed_language_tokens
        width = self.paligemma_with_expert.embedding.embedding_dim
        shown = [image.mean(dim=(1, 2, 3))[:, None, None].expand(-1, 1, width) for image in images]
        ids = torch.cat([tokens, fast_action_tokens], dim=1)
        inputs = torch.cat([*shown, embed(ids) * width**0.5], dim=1)
        seen = [mask[:, None] for mask in img_masks]
        is_real = torch.cat([*seen, masks.bool(), fast_action_masks], dim=1)
        length, num_fast = is_real.shape[1], fast_action_tokens.shape[1]
        may_see = torch.ones(length, length, dtype=torch.bool).tril()
        may_see[: length - num_fast, : length - num_fast] = True
        allowed = may_see & is_real[:, None] & is_real[:, :, None]
        return inputs, is_real, allowed, len(images), num_fast

    def gradient_checkpointing_enable(self) -> None: ...


class PI0FastPolicy(PreTrainedPolicy):
    config_class = PI0FastConfig
    name = "pi0_fast"

    def init_rtc_processor(self) -> None:
        self.rtc_processor = None

    def reset(self) -> None:
        self._action_queue: deque[Tensor] = deque(maxlen=self.config.n_action_steps)

    def _preprocess_images(self, batch: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        images = [2 * batch[key] - 1 for key in self.config.image_features]
        return images, [torch.ones(len(image), dtype=torch.bool) for image in images]

    def _paligemma_tokens_to_act_tokens(self, tokens: Tensor) -> Tensor:
        return self._paligemma_tokenizer.vocab_size - 1 - self.config.fast_skip_tokens - tokens

    def _fix_pytorch_state_dict_keys(self, state_dict: Any, model_config: Any) -> Any:
        return state_dict

    def select_action(self, batch: dict[str, Tensor]) -> Tensor:
        if not self._action_queue:
            chunk = self.predict_action_chunk(batch)[:, : self.config.n_action_steps]
            self._action_queue.extend(chunk.unbind(1))
        return self._action_queue.popleft()

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
        strict: bool = True,
        **kwargs: Any,
    ) -> Any:
        from safetensors.torch import load_file

        policy = cls(config, **kwargs)
        policy.load_state_dict(load_file(Path(pretrained_name_or_path) / "model.safetensors"))
        return policy


@dataclass
class Pi0FastPrepareStateAndLanguageTokenizerProcessorStep:
    max_state_dim: int = 32
    task_key: str = "task"


# lerobot.processor


class ProcessorStepRegistry:
    @classmethod
    def register(cls, name: str | None = None) -> Callable[[type], type]:
        return lambda made: made


@dataclass
class RenameObservationsProcessorStep:
    rename_map: dict[str, str] = field(default_factory=dict)


@dataclass
class AddBatchDimensionProcessorStep:
    pass


@dataclass
class DeviceProcessorStep:
    device: str = "cpu"
    float_dtype: str | None = None


@dataclass
class NormalizerProcessorStep:
    features: dict[str, PolicyFeature]
    norm_map: dict[FeatureType, NormalizationMode]
    stats: dict[str, dict[str, Any]] | None = None


@dataclass
class UnnormalizerProcessorStep(NormalizerProcessorStep):
    pass


@dataclass
class TokenizerProcessorStep:
    tokenizer_name: str | None = None
    tokenizer: Any | None = None
    max_length: int = 512
    task_key: str = "task"
    padding_side: str = "right"
    padding: str = "max_length"
    truncation: bool = True


@dataclass
class ActionTokenizerProcessorStep:
    action_tokenizer_name: str | None = None
    action_tokenizer_input_object: Any | None = None
    trust_remote_code: bool = True
    max_action_tokens: int = 256
    fast_skip_tokens: int = 128
    paligemma_tokenizer_name: str = "google/paligemma-3b-pt-224"
    action_tokenizer: Any = field(default=None, init=False, repr=False)
    _paligemma_tokenizer: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        from transformers import AutoProcessor, AutoTokenizer

        self.action_tokenizer = self.action_tokenizer_input_object
        if self.action_tokenizer is None:
            self.action_tokenizer = AutoProcessor.from_pretrained(self.action_tokenizer_name)
        self._paligemma_tokenizer = AutoTokenizer.from_pretrained(self.paligemma_tokenizer_name)

    def _tokenize_action(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """`<bos> "Action: " ids "|" <eos>`, cut or padded with 0 to max_action_tokens."""
        text, rows = self._paligemma_tokenizer, []
        top = text.vocab_size - 1 - self.fast_skip_tokens
        for chunk in action:
            (ids,) = self.action_tokenizer(chunk[None].cpu())
            lead = [text.bos_token_id, *text.encode("Action: ", add_special_tokens=False)]
            row = lead + [top - i for i in ids] + text.encode("|")
            rows.append(torch.tensor(row[: self.max_action_tokens]))
        size = self.max_action_tokens
        tokens = torch.stack([F.pad(row, (0, size - len(row))) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        return tokens, torch.arange(size) < lengths[:, None]

    def get_config(self) -> dict[str, Any]: ...


@dataclass
class PolicyProcessorPipeline:
    steps: list[Any] = field(default_factory=list)
    name: str = "DataProcessorPipeline"
    to_transition: Any = None
    to_output: Any = None


def policy_action_to_transition(action: Any) -> Any: ...


def transition_to_policy_action(transition: Any) -> Any: ...


MODULES: dict[str, tuple[Any, ...]] = {
    "lerobot.configs.policies": (PreTrainedConfig,),
    "lerobot.configs.types": (FeatureType, NormalizationMode, PolicyFeature),
    "lerobot.optim.optimizers": (AdamWConfig,),
    "lerobot.optim.schedulers": (CosineDecayWithWarmupSchedulerConfig,),
    "lerobot.policies.pretrained": (PreTrainedPolicy,),
    "lerobot.policies.pi0_fast.configuration_pi0_fast": (PI0FastConfig,),
    "lerobot.policies.pi0_fast.modeling_pi0_fast": (PI0FastPolicy, PI0FastPytorch),
    "lerobot.policies.pi0_fast.processor_pi0_fast": (
        Pi0FastPrepareStateAndLanguageTokenizerProcessorStep,
    ),
    "lerobot.processor": (
        ActionTokenizerProcessorStep,
        AddBatchDimensionProcessorStep,
        DeviceProcessorStep,
        NormalizerProcessorStep,
        PolicyProcessorPipeline,
        ProcessorStepRegistry,
        RenameObservationsProcessorStep,
        TokenizerProcessorStep,
        UnnormalizerProcessorStep,
    ),
    "lerobot.processor.converters": (policy_action_to_transition, transition_to_policy_action),
}
CONSTANTS = {
    name: globals()[name]
    for name in (
        "ACTION",
        "OBS_STATE",
        "OBS_LANGUAGE_TOKENS",
        "OBS_LANGUAGE_ATTENTION_MASK",
        "ACTION_TOKENS",
        "ACTION_TOKEN_MASK",
        "POLICY_PREPROCESSOR_DEFAULT_NAME",
        "POLICY_POSTPROCESSOR_DEFAULT_NAME",
    )
}


@contextmanager
def installed() -> Iterator[None]:
    """The stand-in in the place of LeRobot, and the plugin imported anew on it."""
    before = dict(sys.modules)
    contents = {name: {thing.__name__: thing for thing in MODULES[name]} for name in MODULES}
    contents["lerobot.utils.constants"] = CONSTANTS
    for name, things in contents.items():
        parts = name.split(".")
        for size in range(1, len(parts) + 1):
            path = ".".join(parts[:size])
            module = sys.modules.setdefault(path, types.ModuleType(path))
            module.__spec__ = ModuleSpec(path, None)
        vars(sys.modules[name]).update(things)
    try:
        yield
    finally:
        for name in list(sys.modules):
            if name.split(".")[0] in ("lerobot", "lerobot_policy_oat") and name not in before:
                del sys.modules[name]
