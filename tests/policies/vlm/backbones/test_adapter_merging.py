"""Adapters become part of the weights: the same outputs without them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.policies.vlm.backbones.adapter_merging import merge_adapters
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.loading import load_backbone
from oatkit.policies.vlm.backbones.trained_parts import ADAPTER
from tests.policies.vlm.tiny_vlm import families, make_policy, sample, sample_random


@families
def test_a_merged_policy_is_an_ordinary_one_with_the_same_outputs(
    family: str, checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """Within 1e-4 of the loss and of logits that are about 1: float32 adds in another order."""
    policy = make_policy(
        "vlm-tc", checkpoints[family], "oat", dataset, backbone=BackboneOptions(lora_rank=4)
    )
    observations, actions_BTA = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions_BTA)
    before = policy.net.state_dict()
    kept = {name: value.clone() for name, value in before.items() if "backbone." not in name}
    with torch.no_grad():
        wanted = policy.logits(observations, tokens.ids, policy.schedule)
        loss = policy.loss(observations, tokens, actions_BTA, sample_random()).total
        policy.model.merge_adapters()
        found = policy.logits(observations, tokens.ids, policy.schedule)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        again = policy.loss(observations, tokens, actions_BTA, sample_random()).total
        torch.testing.assert_close(again, loss, rtol=1e-4, atol=1e-4)
    after = policy.net.state_dict()
    assert not [name for name in after if ADAPTER in name or "base_layer" in name]
    assert all(torch.equal(after[name], value) for name, value in kept.items())
    loaded = oatkit.load_policy(policy.save_pretrained(tmp_path))
    assert loaded.net.config.backbone.lora_rank == 0
    with torch.no_grad():
        assert torch.equal(loaded.logits(observations, tokens.ids, policy.schedule), found)


def test_without_its_adapters_it_would_answer_otherwise(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """Otherwise the test above would show nothing."""
    adapted = BackboneOptions(lora_rank=4)
    policy = make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat", dataset, backbone=adapted)
    observations, actions_BTA = sample(policy, dataset)
    ids_BK = policy.tokenizer.encode(actions_BTA).ids
    with torch.no_grad():
        wanted = policy.logits(observations, ids_BK, policy.schedule)
        for name, parameter in policy.net.named_parameters():
            if ADAPTER in name:
                parameter.zero_()
        assert (policy.logits(observations, ids_BK, policy.schedule) - wanted).abs().max() > 0.1


@pytest.mark.parametrize("train_vision", [False, True])
def test_what_adapters_learned_is_not_rounded_away(
    train_vision: bool, checkpoints: dict[str, Path]
) -> None:
    """Half of a change of 0.1 percent would be lost in bfloat16."""
    options = BackboneOptions(dtype="bfloat16", lora_rank=2, train_vision=train_vision)
    backbone = load_backbone(str(checkpoints["qwen3-vl"]), options)
    backbone.set_types(torch.bfloat16)
    name = "layers.0.self_attn.q_proj"
    layer = backbone.family.language_model(backbone.model).get_submodule(name)
    torch.nn.init.normal_(layer.lora_B["default"].weight, std=1e-3)
    wanted = layer.base_layer.weight.float() + layer.get_delta_weight("default")
    merged = merge_adapters(backbone, options)
    language = backbone.family.language_model(backbone.model)
    assert torch.equal(language.get_submodule(name).weight, wanted)
    assert {p.dtype for p in backbone.parameters()} == {torch.float32}
    assert merged == BackboneOptions(freeze_vision=not train_vision), asdict(merged)
