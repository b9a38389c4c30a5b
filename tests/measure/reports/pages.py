"""Reading a report as a browser would."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """What a page refers to and what tags it leaves open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [v or "" for k, v in attrs if k.split(":")[-1] in ("href", "src")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [v or "" for k, v in attrs if k.split(":")[-1] in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
