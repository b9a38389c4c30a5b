"""Versions of what a result depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version


def package_versions(*names: str) -> dict[str, str]:
    """Of Python, oatkit, torch, numpy and the packages named beside."""
    packages = ("oatkit", "torch", "numpy", *names)
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
