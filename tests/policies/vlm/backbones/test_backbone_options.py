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
        "freeze_language": False,
        "lora_rank": 4,
        "save_memory": False,
    }
    assert BackboneOptions(**asdict(options)) == options
