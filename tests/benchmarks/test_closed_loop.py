"""Rows compared on the same episodes, by what they say that they solved."""

from __future__ import annotations

from typing import Any

from benchmarks.closed_loop import compared_with, paired

OAT = ("oat", 8)


def row(solved: str | None, seed: int = 0, budget: int = 8, **more: Any) -> dict[str, Any]:
    """A row of one task at one budget."""
    found: dict[str, Any] = {"budget": budget}
    if solved is not None:
        found["solved"] = {"push": solved}
    return {"protocol": {"sampling": {"seed": seed}}, "budgets": [found], **more}


def test_rows_are_compared_without_the_records_of_their_episodes() -> None:
    rows = {"oat": row("1100"), "quest": row("1110", budget=16), "bin": row(None)}
    found = paired(OAT, rows)
    assert list(found) == ["quest"]
    pair = found["quest"]["16"]
    assert (pair["first"], pair["second"]) == ("oat at 8", "quest at 16")
    assert (pair["difference"], pair["episodes"], pair["seeds"]) == (0.25, 4, 1)


def test_only_seeds_that_both_have_are_compared() -> None:
    rows = {"oat": row("11"), "oat, seed 1": row("10", 1), "quest, seed 1": row("01", 1)}
    pair = paired(OAT, rows)["quest, seed 1"]["8"]
    assert (pair["only_first"], pair["only_second"], pair["seeds"]) == (1, 1, 1)
    assert paired(OAT, {"oat": row("11"), "quest, seed 1": row("01", 1)}) == {}, "other goals"


def test_what_is_measured_again_keeps_its_comparison() -> None:
    before = {"oat": row("1100"), "quest": row("1110")}
    rows = compared_with(OAT, before, "quest", row("0110"))
    again = compared_with(OAT, rows, "quest", row("1111"))
    assert rows["quest"]["against"]["8"]["difference"] == 0
    assert again["quest"]["against"]["8"]["difference"] == 0.5
    reference = compared_with(OAT, again, "oat", row("1111"))
    assert reference["quest"]["against"]["8"]["difference"] == 0


def test_comparisons_of_before_stay_as_long_as_what_they_compare() -> None:
    old = {"8": {"difference": -0.1}}
    before = {"oat": row(None), "quest": row(None, against=old), "bin": row(None, against=old)}
    other = compared_with(OAT, before, "fast", row("11"))
    assert other["quest"]["against"] == other["bin"]["against"] == old
    assert "against" not in other["fast"], "oat does not say what it solved"
    seed = compared_with(OAT, before, "oat, seed 1", row("11", 1))
    assert seed["quest"]["against"] == old
    again = compared_with(OAT, before, "quest", row("11"))
    assert "against" not in again["quest"]
    assert again["bin"]["against"] == old
    reference = compared_with(OAT, before, "oat", row("11"))
    assert all("against" not in one for one in reference.values())
