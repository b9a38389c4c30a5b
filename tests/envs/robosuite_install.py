"""Whether robosuite can be tried here: it has an environment of its own (`make test-robosuite`)."""

from __future__ import annotations

import pytest

from oatkit.envs.robosuite import ROBOSUITE
from oatkit.errors import OatkitError


def skip_without_robosuite() -> None:
    try:
        ROBOSUITE.package_versions()
    except OatkitError as error:
        pytest.skip(f"{error} (run by `make test-robosuite`)", allow_module_level=True)
