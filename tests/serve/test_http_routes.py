"""Health, metrics and keys, before a client has its websocket."""

from __future__ import annotations

import pytest
from oatkit_client import Client, ServerError
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from oatkit.policies import Policy
from tests.serve.slow import OBSERVATION
from tests.serve.talking import get, served


def test_health_and_metrics(light: Policy) -> None:
    with served(light) as url, Client(url) as client:
        assert get(url, "/healthz") == (200, "OK\n")
        client.infer(OBSERVATION, budget=2)
        client.infer(OBSERVATION, budget=4, deadline_ms=10_000)
        with pytest.raises(ServerError):
            client.infer({"x": 1})
        status, text = get(url, "/metrics")
    assert status == 200
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
    values = {name: float(value) for name, value in lines}
    assert values['oatkit_requests_total{outcome="ok"}'] == 2
    assert values['oatkit_requests_total{outcome="error"}'] == 1
    assert values['oatkit_errors_total{kind="request"}'] == 1
    assert values['oatkit_deadlines_total{outcome="met"}'] == 1
    bounds = ("1.0", "2.0", "4.0")
    assert [values[f'oatkit_budget_used_bucket{{le="{k}"}}'] for k in bounds] == [0, 1, 2]
    assert values['oatkit_request_seconds_bucket{le="+Inf"}'] == 2
    assert values["oatkit_queue_depth"] == 0
    assert values["oatkit_request_seconds_sum"] > 0


def test_the_key_is_asked_for_before_anything_else(light: Policy) -> None:
    with served(light, api_key="s3cret") as url:
        for headers in ({}, {"Authorization": "Api-Key wrong"}, {"Authorization": "s3cret"}):
            with pytest.raises(InvalidStatus) as refused:
                connect(url, additional_headers=headers).__enter__()
            assert refused.value.response.status_code == 401
        assert get(url, "/healthz")[0] == 200
        assert get(url, "/metrics")[0] == 401
        two = [("Authorization", "Api-Key wrong"), ("Authorization", "Api-Key s3cret")]
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=two).__enter__()
        assert refused.value.response.status_code == 401
        assert get(url, "/metrics", Authorization="Api-Key s3cret")[0] == 200
        with Client(url, api_key="s3cret") as client:
            assert client.infer(OBSERVATION)["actions"].shape == (8, 3)


def test_superfluous_clients(light: Policy) -> None:
    with served(light, max_connections=1) as url, connect(url, compression=None) as first:
        first.recv()
        with pytest.raises(InvalidStatus) as refused:
            connect(url).__enter__()
        assert refused.value.response.status_code == 503
