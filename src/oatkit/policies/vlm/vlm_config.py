"""What a vision-language policy is: its objective, its expert and how its backbone is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions

Objective = Literal["vlm-ar", "vlm-tc", "vlm-flow"]
Head = Literal["tokens", "flow"]

HEADS: dict[str, tuple[Head, ...]] = {
    "vlm-ar": ("tokens",),
    "vlm-tc": ("flow", "tokens"),
    "vlm-flow": ("flow",),
}
"""What each objective trains; the first one acts."""


@dataclass(frozen=True)
class ExpertConfig:
    """Size of the flow expert."""

    width: int = 1024
    num_layers: int | None = None
    """As many as the backbone by default; fewer read evenly spread layers of it, the last too."""
    num_steps: int = 10
    """Euler steps."""

    def __post_init__(self) -> None:
        for name in ("width", "num_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.num_layers is not None and self.num_layers < 1:
            raise ValueError(f"num_layers is {self.num_layers}, expected at least 1")


@dataclass(frozen=True)
class VlmConfig:
    """An objective and all that it takes.

        vlm-ar     tokens block by block, decoded into the chunk
        vlm-tc     tokens teach the backbone; a flow expert that reads it, detached, acts
        vlm-flow   the same expert without tokens, its gradient reaching the backbone

    Attributes:
        objective: One of these.
        endpoints: The schedule of `vlm-ar`; the tokenizer's own by default.
        flow_weight: Of the flow loss beside the token loss.
        expert: Of `vlm-tc` and `vlm-flow`.
        backbone: How it is loaded and trained.
    """

    objective: Objective = "vlm-ar"
    endpoints: tuple[int, ...] | None = None
    flow_weight: float = 1.0
    expert: ExpertConfig = field(default_factory=ExpertConfig)
    backbone: BackboneOptions = field(default_factory=BackboneOptions)

    def __post_init__(self) -> None:
        if self.endpoints is not None and self.objective != "vlm-ar":
            raise ValueError(f"{self.objective} has no schedule: leave --endpoints out")

    @property
    def heads(self) -> tuple[Head, ...]:
        return HEADS[self.objective]

    @property
    def is_insulated(self) -> bool:
        """Whether the expert reads detached keys and values."""
        return self.objective == "vlm-tc"

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
