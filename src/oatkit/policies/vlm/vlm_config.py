"""Configuration of a vision-language policy: objective, flow expert, options of the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oatkit.errors import unknown_name
from oatkit.nn.image_augmentation import Augmentation
from oatkit.policies.vlm.backbones.backbone_options import FREEZING, BackboneOptions
from oatkit.types import Head


@dataclass(frozen=True)
class Objective:
    """What a vision-language policy is trained for.

    Attributes:
        summary: What it is, in a few words.
        heads: Heads that are trained; the first of them acts.
    """

    summary: str
    heads: tuple[Head, ...]


OBJECTIVES = {
    "vlm-ar": Objective("vision-language, tokens block by block", ("tokens",)),
    "vlm-tc": Objective(
        "vision-language, co-trained on tokens, and at run time a flow-matching head produces the "
        "actions",
        ("flow", "tokens"),
    ),
    "vlm-flow": Objective("vision-language, a flow expert alone", ("flow",)),
}

LATER = ("flow_draws", "expert_only", "augmentation", "mask_padding")
"""Settings of `VlmConfig` that its first version did not have."""

STAGE = ("flow_weight", "flow_draws", "expert_only", "augmentation", "mask_padding")
"""Settings of `VlmConfig` that say how a policy is trained. Those of the backbone (`FREEZING` and
`dtype`) beside, what starts from a policy inherits none of them."""


@dataclass(frozen=True)
class ExpertConfig:
    """Size of the flow expert."""

    width: int = 1024
    """Width of an action slot."""
    num_layers: int | None = None
    """Number of layers, by default that of the backbone; fewer read evenly spread layers of it."""
    num_steps: int = 10
    """Number of Euler steps from noise to actions."""

    def __post_init__(self) -> None:
        for name in ("width", "num_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.num_layers is not None and self.num_layers < 1:
            raise ValueError(f"num_layers is {self.num_layers}, expected at least 1")


@dataclass(frozen=True)
class VlmConfig:
    """An objective and its settings.

        vlm-ar     the backbone generates tokens block by block, which are decoded into the chunk
        vlm-tc     tokens train the backbone; a flow expert, which reads it without gradient, acts
        vlm-flow   the same expert without tokens, and its gradient reaches the backbone

    Attributes:
        objective: One of the three objectives above.
        endpoints: Endpoints of the schedule of `vlm-ar`; those of the tokenizer by default.
        flow_weight: Weight of the flow loss beside the token loss.
        expert: Size of the flow expert of `vlm-tc` and `vlm-flow`.
        backbone: How the backbone is loaded and trained.
        flow_draws: Number of times and noises at which training computes the velocity of a chunk;
            they share one pass of the backbone.
        expert_only: Whether only the flow expert is trained, and all else stays as it is.
        augmentation: How images are changed in training.
        mask_padding: Whether steps past the end of an episode are left out of the flow loss.
    """

    objective: str = "vlm-ar"
    endpoints: tuple[int, ...] | None = None
    flow_weight: float = 1.0
    expert: ExpertConfig = field(default_factory=ExpertConfig)
    backbone: BackboneOptions = field(default_factory=BackboneOptions)
    flow_draws: int = 1
    expert_only: bool = False
    augmentation: Augmentation = field(default_factory=Augmentation)
    mask_padding: bool = False

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown_name("objective", self.objective, OBJECTIVES))
        if self.endpoints is not None and self.objective != "vlm-ar":
            raise ValueError(f"{self.objective} has no schedule: leave --endpoints out")
        if self.flow_draws < 1:
            raise ValueError(f"flow_draws is {self.flow_draws}, expected at least 1")
        if self.expert_only and "flow" not in self.heads:
            raise ValueError(f"{self.objective} has no flow expert that could be trained alone")

    @property
    def heads(self) -> tuple[Head, ...]:
        """Heads that the objective trains; the first of them acts."""
        return OBJECTIVES[self.objective].heads

    @property
    def kind(self) -> str:
        """Name in the table of policies."""
        return self.objective

    @property
    def is_cotrained(self) -> bool:
        """Whether tokens train the backbone, and the expert reads it without a gradient to it."""
        return len(self.heads) > 1

    def to_json(self) -> dict[str, Any]:
        """JSON that `from_json` reads.

        Settings that came later are left out while they have their default, so that training goes
        on from checkpoints that were written before them.
        """
        default, values = asdict(VlmConfig()), asdict(self)
        if not self.backbone.train_vision:
            del values["backbone"]["train_vision"]
        return {name: v for name, v in values.items() if name not in LATER or v != default[name]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> VlmConfig:
        """The inverse of `to_json`."""
        endpoints = values["endpoints"]
        return cls(
            objective=values["objective"],
            endpoints=None if endpoints is None else tuple(endpoints),
            flow_weight=values["flow_weight"],
            expert=ExpertConfig(**values["expert"]),
            backbone=BackboneOptions(**values["backbone"]),
            flow_draws=values.get("flow_draws", 1),
            expert_only=values.get("expert_only", False),
            augmentation=Augmentation.from_json(values.get("augmentation", {})),
            mask_padding=values.get("mask_padding", False),
        )


def stage_flags(config: VlmConfig) -> dict[str, str]:
    """Flags of `oatkit policy train` that say how a policy is trained, by name; defaults are left
    out."""
    default = VlmConfig()
    groups: list[tuple[Any, Any, tuple[str, ...]]] = [
        (config, default, tuple(name for name in STAGE if name != "augmentation")),
        (config.augmentation, default.augmentation, tuple(asdict(default.augmentation))),
        (config.backbone, default.backbone, (*FREEZING, "dtype")),
    ]
    found = {}
    for given, usual, names in groups:
        for name in names:
            value = getattr(given, name)
            if value != getattr(usual, name):
                values = value if isinstance(value, tuple) else () if value is True else (value,)
                found[name] = " ".join([f"--{name.replace('_', '-')}", *map(str, values)])
    return found


def keep_precision(config: VlmConfig, wanted: VlmConfig) -> VlmConfig:
    """The wanted config, in float32 if it freezes a part that `config` trained.

    A part that is frozen gets `dtype`, and bfloat16 would round away what it has learned.
    """

    def trained(one: VlmConfig) -> tuple[bool, bool]:
        parts = (one.backbone.is_vision_frozen, one.backbone.is_language_frozen)
        vision, language = (not (is_frozen or one.expert_only) for is_frozen in parts)
        return vision, language

    is_lossy = any(b and not a for b, a in zip(trained(config), trained(wanted), strict=True))
    if not is_lossy:
        return wanted
    return replace(wanted, backbone=replace(wanted.backbone, dtype="float32"))


def require_successor(config: VlmConfig, wanted: VlmConfig) -> None:
    """Refuse a config under which a policy of `config` cannot be trained further."""
    if "tokens" in wanted.heads and "tokens" not in config.heads:
        raise ValueError(
            f"{config.objective} has no action tokens that {wanted.objective} could start from: "
            "start from vlm-ar or vlm-tc"
        )
    if "flow" in config.heads and "flow" in wanted.heads and wanted.expert != config.expert:
        raise ValueError(f"the policy has a flow expert with {config.expert} already")
    own, options = config.backbone, wanted.backbone
    if options.dtype == "float32":  # which loses nothing
        own = replace(own, dtype="float32")
    elif options.dtype != own.dtype:
        raise ValueError(
            f"the weights of the policy are {own.dtype}, which {options.dtype} would round: leave "
            "--dtype out"
        )
    if options != replace(own, **{name: getattr(options, name) for name in FREEZING}):
        raise ValueError(
            f"of the backbone's options only what is frozen may change, not {own} to {options}"
        )
