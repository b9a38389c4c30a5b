"""LeRobot's pi0_fast with a PaliGemma of random weights that fits into a test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

WIDTH = 32


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every PaliGemma that pi0_fast makes is small.

    LeRobot 0.4.4 runs its pi0 policies only on a patched transformers that is on no package index,
    and asks for it by an attribute; the patch matters to trained weights, not to random ones.
    """
    import transformers.models.siglip as siglip
    from lerobot.policies.pi0_fast import modeling_pi0_fast as theirs
    from lerobot_policy_oat.versions import IS_BEFORE_0_6

    if IS_BEFORE_0_6:
        is_patched = SimpleNamespace(
            check_whether_transformers_replace_is_installed_correctly=lambda: True
        )
        monkeypatch.setattr(siglip, "check", is_patched, raising=False)
    suffix = "" if IS_BEFORE_0_6 else "WithPiGemma"
    name = f"PaliGemmaForConditionalGeneration{suffix}"
    whole = getattr(theirs, name)

    def small(config: Any) -> Any:
        text, vision = config.text_config, config.vision_config
        text.hidden_size, text.intermediate_size, text.num_hidden_layers = WIDTH, 48, 2
        text.num_attention_heads, text.num_key_value_heads, text.head_dim = 2, 1, 16
        text.vocab_size = config._vocab_size = 1300
        config.image_token_index = config.image_token_id = 1299
        vision.hidden_size, vision.intermediate_size, vision.num_hidden_layers = 16, 24, 1
        vision.num_attention_heads, vision.patch_size, vision.projection_dim = 2, 56, WIDTH
        return whole(config=config)

    monkeypatch.setattr(theirs, name, small)
