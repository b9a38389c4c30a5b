"""Color and marker of each kind of tokenizer, the same in all charts."""

from __future__ import annotations

from itertools import cycle

from oatkit.tokenizers import KINDS

MARKERS = dict(zip(KINDS, cycle("osX^vPD<>*ph8d"), strict=False))
STYLES = {name: (kind.color, MARKERS[name]) for name, kind in KINDS.items()}
"""Color and marker of each kind of tokenizer."""
