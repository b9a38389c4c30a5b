"""The flags of sampling, which several commands share."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import arg

from oatkit.types import Sampling

SamplingFlags = Annotated[Sampling, arg(name="")]
"""A field of this type adds a flag for every sampling rule to a command, without a prefix."""
