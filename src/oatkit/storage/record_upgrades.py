"""How JSON records of older versions become records of the next version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""JSON values of one version to those of the next; the version itself is set by the reader."""

UPGRADES: Mapping[str, Mapping[int, Upgrade]] = {}
"""Schema to the functions that lead on from each of its older versions."""
