"""Events are one JSON object a line."""

from __future__ import annotations

import json
import logging

import pytest

from oatkit.serve.event_log import LOGGER, log_event, logging_to_stderr


def test_events_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr("info"):
        log_event("connected", connection=3, client="robot:1")
        log_event("request", logging.DEBUG, total_ms=1.5)
        try:
            raise RuntimeError("secret detail")
        except RuntimeError:
            log_event("failure", logging.ERROR, trace=True, id="f00")
    first, last = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["level"], first["connection"]) == ("connected", "info", 3)
    assert first["time"].endswith("+00:00")
    assert "secret detail" in last["trace"]
    assert last["id"] == "f00"


def test_a_program_that_embeds_a_server_hears_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr("info"):
        pass
    log_event("stopped")
    assert capsys.readouterr().err == ""
    assert LOGGER.propagate
    assert LOGGER.level == logging.NOTSET
