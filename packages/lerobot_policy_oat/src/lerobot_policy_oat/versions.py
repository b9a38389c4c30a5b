"""Where LeRobot 0.4.4 and 0.6.1 differ for the plugin; all other files are written for both.

Shape letters: B batch, L slots, D width.
"""

from __future__ import annotations

import math
from typing import Any

from lerobot import __version__
from packaging.version import Version
from torch import Tensor

IS_BEFORE_0_6 = Version(__version__) < Version("0.6")

PALIGEMMA_LAYERS = [
    "GemmaDecoderLayer" if IS_BEFORE_0_6 else "_PiGemmaDecoderLayerBase",
    "SiglipEncoderLayer",
]
"""Classes of the layers of `pi0_fast`; 0.6 has its own ones for text, because it runs on
transformers as they are."""


def embed_text(vlm: Any, ids_BL: Tensor) -> Tensor:
    """Embeddings of text ids as the first layer reads them, (B, L, D): in transformers 5, which
    0.6 needs, Gemma's embedding multiplies by the root of the width itself.

    Args:
        vlm: The vision-language model of `pi0_fast`.
        ids_BL: Ids of the text vocabulary.
    """
    embedded_BLD: Tensor = vlm.embed_language_tokens(ids_BL)
    return embedded_BLD * math.sqrt(embedded_BLD.shape[-1]) if IS_BEFORE_0_6 else embedded_BLD
