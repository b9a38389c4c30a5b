"""Results say which packages they were made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

import oatkit
from oatkit.storage.package_versions import package_versions


def test_the_versions_that_every_result_depends_on() -> None:
    found = package_versions("safetensors")
    assert list(found) == ["python", "oatkit", "torch", "numpy", "safetensors"]
    assert found["python"] == platform.python_version()
    assert (found["numpy"], found["oatkit"]) == (np.__version__, oatkit.__version__)


def test_a_package_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(PackageNotFoundError):
        package_versions("no-such-package")
