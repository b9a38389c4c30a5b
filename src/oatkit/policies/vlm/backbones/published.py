"""Sizes of published checkpoints, so that a training can be planned without a download.

Only what decides the shapes of weights and slots is here; all else is the default of
`transformers`. `oatkit vlm plan` knows these ids, and any other by its `config.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]
ANY_SHAPE = {"size": {"shortest_edge": 256**2, "longest_edge": 4096**2}, "merge_size": 2}
"""Numbers of pixels between which Qwen3-VL takes images as they are; other towers have a size."""


@dataclass(frozen=True)
class Published:
    """A published checkpoint.

    Attributes:
        family: Name in the table of families.
        config: Arguments of its config class.
    """

    family: str
    config: Values


def _paligemma2(side: int, **text: Any) -> Published:
    """PaliGemma 2 for images of a side length; only the language model differs in size."""
    shared = {"model_type": "gemma2", "vocab_size": 257216}
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "patch_size": 14,
        "image_size": side,
        "vision_use_head": False,
    }
    config = {
        "text_config": {**shared, **text},
        "vision_config": vision,
        "projection_dim": text["hidden_size"],
    }
    return Published("paligemma2", config)


def _qwen3_vl(vision: Values, *, is_tied: bool = True, **text: Any) -> Published:
    """Qwen3-VL; the large tower and untied embeddings belong to its larger models."""
    shared = {"vocab_size": 151936, "head_dim": 128, "tie_word_embeddings": is_tied}
    tower = {
        "num_heads": 16,
        "patch_size": 16,
        "out_hidden_size": text["hidden_size"],
        "num_position_embeddings": 2304,
    }
    config = {
        "text_config": {**shared, **text},
        "vision_config": {**tower, **vision},
        "tie_word_embeddings": is_tied,
    }
    return Published("qwen3-vl", config)


def _smolvlm2(vision: Values, scale_factor: int, **text: Any) -> Published:
    """SmolVLM2; `scale_factor` patches in a row and in a column become one slot."""
    shared = {"model_type": "llama", "vocab_size": 49280}
    config = {
        "text_config": {**shared, **text},
        "vision_config": dict(vision),
        "scale_factor": scale_factor,
    }
    return Published("smolvlm", config)


GEMMA_2_2B = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
}
GEMMA_2_9B = {
    "hidden_size": 3584,
    "intermediate_size": 14336,
    "num_hidden_layers": 42,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
}
QWEN_TOWER = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "deepstack_visual_indexes": [5, 11, 17],
}
QWEN_LARGE_TOWER = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "deepstack_visual_indexes": [8, 16, 24],
}
SIGLIP_BASE = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 512,
    "patch_size": 16,
}
SIGLIP_LARGE = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 384,
    "patch_size": 14,
}

PUBLISHED = {
    "google/paligemma2-3b-pt-224": _paligemma2(224, **GEMMA_2_2B),
    "google/paligemma2-3b-pt-448": _paligemma2(448, **GEMMA_2_2B),
    "google/paligemma2-10b-pt-224": _paligemma2(224, **GEMMA_2_9B),
    "Qwen/Qwen3-VL-2B-Instruct": _qwen3_vl(
        QWEN_TOWER,
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
    ),
    "Qwen/Qwen3-VL-4B-Instruct": _qwen3_vl(
        QWEN_TOWER,
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
    ),
    "Qwen/Qwen3-VL-8B-Instruct": _qwen3_vl(
        QWEN_LARGE_TOWER,
        is_tied=False,
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
    ),
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": _smolvlm2(
        SIGLIP_BASE,
        4,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
    ),
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": _smolvlm2(
        SIGLIP_BASE,
        4,
        hidden_size=960,
        intermediate_size=2560,
        num_hidden_layers=32,
        num_attention_heads=15,
        num_key_value_heads=5,
        head_dim=64,
    ),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": _smolvlm2(
        SIGLIP_LARGE,
        3,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=24,
        num_attention_heads=32,
        num_key_value_heads=32,
        head_dim=64,
    ),
}
"""Published checkpoints by their id on the Hugging Face hub."""
