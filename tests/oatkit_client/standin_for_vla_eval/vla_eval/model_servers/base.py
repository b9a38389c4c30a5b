"""A connection, as a model server sees it."""

from __future__ import annotations

from typing import Any


class SessionContext:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.step = 0
        self.sent: list[dict[str, Any]] = []

    async def send_action(self, action: dict[str, Any]) -> None:
        self.sent.append(action)
