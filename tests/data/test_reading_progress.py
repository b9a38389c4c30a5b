from __future__ import annotations

import pytest
from rich.console import Console

from oatkit.data import reading_progress as module
from oatkit.data.reading_progress import reading_progress


class Terminal(Console):
    def __init__(self, **_: object) -> None:
        super().__init__(stderr=True, force_terminal=True, width=80)


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_bar_is_on_a_terminal_only_where_asked_for(
    is_shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "Console", Terminal)
    with reading_progress("action", 10, is_shown=is_shown) as advance:
        advance(4)
        advance(6)
    assert ("reading action" in capsys.readouterr().err) == is_shown


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with reading_progress("action", 10) as advance:
        advance(10)
    assert capsys.readouterr().err == ""
