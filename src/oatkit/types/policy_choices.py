"""What may be chosen of a trained policy when it is to act: the same words everywhere."""

from __future__ import annotations

from typing import Literal

Head = Literal["tokens", "flow"]
"""What predicts a chunk: generated tokens that are decoded, or a flow expert."""

Decoding = Literal["strict", "relaxed"]
"""What `fast` does with tokens that are no whole chunk."""

Dtype = Literal["float32", "bfloat16", "float16"]
"""Type of a policy's weights."""
