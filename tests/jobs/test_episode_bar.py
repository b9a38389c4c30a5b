"""The bar of episodes."""

from __future__ import annotations

import pytest
from rich.console import Console

from oatkit.jobs.episode_bar import episode_bar


def test_the_last_line_says_how_far_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    with episode_bar(Console(width=100), 4, "solved") as show:
        show("near, budget 8", 3, 2)
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("near, budget 8 ")
    assert "3/4 episodes 2 solved" in line


def test_a_quiet_console_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with episode_bar(Console(quiet=True), 1, "solved") as show:
        show("near", 1, 0)
    assert capsys.readouterr() == ("", "")
