"""Logs that programs read: one JSON object a line."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any

LOGGER = logging.getLogger("oatkit.serve")


def note(event: str, level: int = logging.INFO, *, trace: bool = False, **fields: Any) -> None:
    """Log an event with its fields; `trace` adds where the present exception comes from."""
    LOGGER.log(level, event, extra={"fields": fields}, exc_info=trace)


class JsonLines(logging.Formatter):
    """`{"time": ..., "level": ..., "event": ..., fields}`."""

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


def log_to_stderr(level: str) -> None:
    """Write the server's events to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False
