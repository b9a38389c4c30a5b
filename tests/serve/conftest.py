"""A small policy, and a server that all tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from tests.serve.slow import make_policy


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    policy = make_policy(Path(tmp_path_factory.mktemp("policy")))
    policy.extras["data"] = {"state_names": list("abcde")}  # as training leaves them
    return policy


@pytest.fixture(scope="module")
def url(light: Policy) -> Iterator[str]:
    with serving(light, ServeConfig(port=0, max_batch=2)) as url:
        yield url
