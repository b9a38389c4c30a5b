"""Lines and rows as commands print them."""

from __future__ import annotations

import pytest
from rich.console import Console

from oatkit.commands.text_output import (
    print_differences,
    print_lines,
    table,
    table_row,
    titled,
)


def test_lines_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a/[bold]folder[/]/" + 30 * "long "
    print_lines(Console(width=20), f"wrote {path}", "next: oatkit")
    assert capsys.readouterr().out == f"wrote {path}\nnext: oatkit\n"


def test_differences_name_the_artifact(capsys: pytest.CaptureFixture[str]) -> None:
    print_differences(Console(), "out/oat", ["other fps", "other names"])
    assert capsys.readouterr().out == "note: out/oat: other fps\nnote: out/oat: other names\n"
    print_differences(Console(), "out/oat", [])
    assert capsys.readouterr().out == ""


def test_rows_keep_their_columns() -> None:
    assert table_row("a", "bc") == "         a        bc\n"
    assert table_row("a", "b", "c", "d", widths=(2, 4)) == " a   b   c   d\n"


def test_columns_of_a_table_are_as_wide_as_they_must_be() -> None:
    found = table([("tokens", "x"), ("8", "1.25")])
    assert found.plain == "  tokens     x\n       8  1.25\n"
    assert [str(span.style) for span in found.spans] == ["dim"]


def test_a_title_has_its_details_behind_it() -> None:
    text = titled("out/oat", "8 tokens")
    assert text.plain == "out/oat  8 tokens\n"
    assert {str(span.style) for span in text.spans} == {"bold", "dim"}
