"""Every test decodes into its own cache and stays off the network."""

from __future__ import annotations

import socket

import pytest
from hypothesis import settings

settings.register_profile("oatkit", deadline=None)  # a busy machine is no failure
settings.load_profile("oatkit")


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OATKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
