"""Configuration of a vision-language policy: objective, flow expert, options of the backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oatkit.errors import unknown_name
from oatkit.policies.policy import Head
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions


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
    """

    objective: str = "vlm-ar"
    endpoints: tuple[int, ...] | None = None
    flow_weight: float = 1.0
    expert: ExpertConfig = field(default_factory=ExpertConfig)
    backbone: BackboneOptions = field(default_factory=BackboneOptions)

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown_name("objective", self.objective, OBJECTIVES))
        if self.endpoints is not None and self.objective != "vlm-ar":
            raise ValueError(f"{self.objective} has no schedule: leave --endpoints out")

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

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> VlmConfig:
        """The inverse of `asdict`."""
        endpoints = values["endpoints"]
        return cls(
            objective=values["objective"],
            endpoints=None if endpoints is None else tuple(endpoints),
            flow_weight=values["flow_weight"],
            expert=ExpertConfig(**values["expert"]),
            backbone=BackboneOptions(**values["backbone"]),
        )
