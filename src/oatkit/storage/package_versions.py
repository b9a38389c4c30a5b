"""Versions of the packages that a result depends on."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def package_versions(*names: str) -> dict[str, str]:
    """Versions of Python, oatkit, torch, numpy and the named packages.

    Torch is left out where it is not installed: an evaluation of a policy elsewhere needs none.
    """
    versions = {"python": platform.python_version(), "oatkit": version("oatkit")}
    with suppress(PackageNotFoundError):
        versions["torch"] = version("torch")
    return versions | {name: version(name) for name in ("numpy", *names)}
