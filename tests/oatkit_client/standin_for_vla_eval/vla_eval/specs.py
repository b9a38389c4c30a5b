"""What is declared of actions and observations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DimSpec:
    name: str


IMAGE_RGB, LANGUAGE, RAW = DimSpec("image"), DimSpec("language"), DimSpec("raw")
