"""Which parameters of a backbone are trained: all, adapters, or those of the parts not frozen."""

from __future__ import annotations

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions

ADAPTER = "lora_"
"""Part of the names of all parameters of adapters."""


def train_parts(backbone: Backbone, options: BackboneOptions) -> None:
    """Let exactly the parts be trained that the options say, whatever was trained before."""
    backbone.requires_grad_(True)
    if options.lora_rank:
        language = backbone.family.language_model(backbone.model)
        for name, parameter in language.named_parameters():
            parameter.requires_grad_(ADAPTER in name)
    backbone.freeze(vision=options.is_vision_frozen, language=options.freeze_language)
