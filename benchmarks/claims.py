"""The paper's claims, each with the function that reads what was measured here about it."""

from __future__ import annotations

from benchmarks.large_claims import LARGE_CLAIMS
from benchmarks.light_claims import LIGHT_CLAIMS
from benchmarks.tokenizer_claims import TOKENIZER_CLAIMS

CLAIMS = (*TOKENIZER_CLAIMS, *LIGHT_CLAIMS, *LARGE_CLAIMS)
"""In the order of the paper."""
