"""The log of a server, for programs to read: one JSON object a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

LOGGER = logging.getLogger("oatkit.serve")
LOGGER.addHandler(logging.NullHandler())  # in another program it is silent until that listens


def log_event(event: str, level: int = logging.INFO, *, trace: bool = False, **fields: Any) -> None:
    """Log an event with its fields; `trace` adds the traceback of the present exception."""
    LOGGER.log(level, event, extra={"fields": fields}, exc_info=trace)


class JsonLines(logging.Formatter):
    """Formats an event as `{"time": ..., "level": ..., "event": ..., fields}`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


@contextmanager
def logging_to_stderr(level: str) -> Iterator[None]:
    """Write the server's events to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    before, LOGGER.handlers = LOGGER.handlers, [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.handlers = before
        LOGGER.setLevel(logging.NOTSET)
        LOGGER.propagate = True
