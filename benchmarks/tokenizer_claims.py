"""The paper's claims on tokenizers themselves, and on how many calls their tokens take."""

from __future__ import annotations

from benchmarks.call_findings import CALLS, calls_of_schemes
from benchmarks.claim_findings import Claim, cannot
from benchmarks.large_claims import FORCED_COSTS, GROUPED, GROUPED_GAINS, ONE
from benchmarks.large_findings import together
from benchmarks.row_commands import generating, light, script
from benchmarks.tokenizer_findings import (
    compact,
    decodes,
    falls,
    nearly_lossless,
    ordered,
    refines,
    tracks,
)

ERRORS = script("tokenizer_rate_distortion", "rate-distortion")
"""What it takes to measure errors."""
DECODED = script("decodability")
"""What it takes to decode drawn sequences, and prefixes."""

TOKENIZER_CLAIMS = (
    Claim(
        "prefix-reconstruction",
        "A chunk comes nearer with every budget",
        "a picture of an arm",
        refines,
        script("prefix_picture"),
    ),
    Claim(
        "tokenizer-comparison",
        "All kinds but `bin` are compact",
        "marks in a table; `bin` has a token for every number of a chunk",
        compact,
        ERRORS,
    ),
    Claim(
        "tokenizer-comparison",
        "All kinds but `fast` decode every sequence",
        "marks in a table",
        decodes,
        DECODED,
    ),
    Claim(
        "tokenizer-comparison",
        "`fast`, `oat` and `oat-pow2` are ordered, `bin` and `quest` are not",
        "marks in a table; `acodec` has a dash",
        ordered,
        DECODED,
    ),
    Claim(
        "tokenizer-comparison",
        "`oat-pow2` is block-compatible, `oat` is not",
        "marks in a table, as a policy that generates powers of two shows it",
        together(FORCED_COSTS, GROUPED_GAINS),
        generating(ONE, GROUPED),
    ),
    Claim(
        "tokenizer-comparison",
        "`bin` and `acodec` are block-compatible, `fast` and `quest` are not",
        "marks in a table",
        cannot(
            "the paper reads these marks off how the tokens are made and has no experiment for them"
        ),
    ),
    Claim(
        "setup",
        "Calls for a chunk, of every scheme",
        "as many as actions with `bin`, as tokens with `fast` and `quest`, 1 with `acodec`; for k "
        "tokens, k with `oat` and 1 + ceil(log2 k) with `oat-pow2`",
        calls_of_schemes,
        light("policy_table", *CALLS, "fast"),
    ),
    Claim(
        "rate-distortion",
        "The error of `oat` falls with every budget",
        "731 / 110 / 38.1 / 32.7 / 32.1 x 0.001 on its MetaWorld",
        falls("oat"),
        ERRORS,
    ),
    Claim(
        "rate-distortion",
        "The error of `oat-pow2` falls with every budget",
        "735 / 107 / 44.4 / 27.7 / 26.4 x 0.001 on its MetaWorld",
        falls("oat-pow2"),
        ERRORS,
    ),
    Claim(
        "rate-distortion",
        "`oat-pow2` closely tracks `oat`",
        "within a factor of 1.22 on its MetaWorld",
        tracks,
        ERRORS,
    ),
    Claim(
        "rate-distortion",
        "`bin` is nearly lossless",
        "1.2 x 0.001 on its MetaWorld, the next 8.2",
        nearly_lossless,
        ERRORS,
    ),
    Claim(
        "rate-distortion",
        "The errors themselves",
        "see the table in the paper",
        cannot(
            "our MetaWorld actions are clipped to [-1, 1], so that errors are not comparable; the "
            "other datasets are not here"
        ),
    ),
)
