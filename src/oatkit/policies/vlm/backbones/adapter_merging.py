"""Adapters (LoRA) become part of the weights that they adapt."""

from __future__ import annotations

from dataclasses import replace

import torch

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.trained_parts import train_parts


def merge_adapters(backbone: Backbone, options: BackboneOptions) -> BackboneOptions:
    """Add adapters to the weights of a backbone; returns the options of what it is then.

    All of it becomes float32: most of what adapters learn is less than bfloat16 rounds away.

    Args:
        backbone: Backbone with adapters, which is changed.
        options: How it was loaded.
    """
    from peft.tuners.lora import LoraLayer

    merged = replace(
        options,
        dtype="float32",
        lora_rank=0,
        freeze_vision=options.is_vision_frozen,
        train_vision=False,
    )
    train_parts(backbone, merged)
    backbone.set_types(torch.float32)
    language = backbone.family.language_model(backbone.model)
    for name, layer in list(language.named_modules()):
        if isinstance(layer, LoraLayer):
            layer.merge()
            parent, _, child = name.rpartition(".")
            setattr(language.get_submodule(parent), child, layer.get_base_layer())
    backbone.use_onnx_mlps()
    return merged
