from __future__ import annotations

from dataclasses import asdict

import pytest

from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions


def test_a_rank_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="lora_rank is -1, expected 0 or more"):
        BackboneOptions(lora_rank=-1)


def test_options_are_stored_under_names_that_stay() -> None:
    """Artifacts hold them, so a field may be added but not renamed."""
    options = BackboneOptions(dtype="bfloat16", attention="eager", freeze_vision=True, lora_rank=4)
    assert asdict(options) == {
        "dtype": "bfloat16",
        "attention": "eager",
        "device_map": None,
        "freeze_vision": True,
        "train_vision": False,
        "freeze_language": False,
        "lora_rank": 4,
        "save_memory": False,
    }
    assert BackboneOptions(**asdict(options)) == options


def test_adapters_freeze_the_vision_tower_unless_it_is_to_be_trained() -> None:
    assert not BackboneOptions().is_vision_frozen
    assert BackboneOptions(freeze_vision=True).is_vision_frozen
    assert BackboneOptions(lora_rank=4).is_vision_frozen
    assert not BackboneOptions(lora_rank=4, train_vision=True).is_vision_frozen
    assert BackboneOptions(lora_rank=4, train_vision=True).is_language_frozen


@pytest.mark.parametrize("others", [{}, {"lora_rank": 2, "freeze_vision": True}])
def test_training_vision_where_nothing_is_to_decide_is_refused(others: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="--train-vision is for --lora-rank without"):
        BackboneOptions(train_vision=True, **others)  # type: ignore[arg-type]


def test_options_that_were_stored_before_a_field_came_are_read() -> None:
    old = asdict(BackboneOptions(lora_rank=4))
    del old["train_vision"]
    assert BackboneOptions(**old) == BackboneOptions(lora_rank=4)
