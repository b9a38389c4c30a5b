"""Versions of the packages that a result depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version


def package_versions(*names: str) -> dict[str, str]:
    """Versions of Python, oatkit, torch, numpy and the named packages."""
    packages = ("oatkit", "torch", "numpy", *names)
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
