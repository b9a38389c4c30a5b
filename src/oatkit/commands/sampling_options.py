"""The flags of how tokens are sampled and decoded, which several commands share."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import arg

from oatkit.types import Decoding, Sampling

SamplingFlags = Annotated[Sampling, arg(name="")]
"""A field of this type adds a flag for every sampling rule to a command, without a prefix."""

DecodingFlag = Annotated[
    Decoding | None,
    arg(
        help="What fast does with tokens that are no whole chunk: strict draws them again, relaxed "
        "pads or cuts them; as the tokenizer was made by default.",
    ),
]
"""A field of this type adds `--decoding` to a command that runs or trains a policy."""
