"""Representations of actions, told in a table and in words."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.representation_findings import (
    HEADINGS,
    representation_rows,
    representation_sentences,
)
from oatkit.types import RepresentationMeasurement
from tests.measure.reports.records import comparison, kind


def test_fewest_tokens_come_first_and_what_misses_last() -> None:
    made = {
        "absolute": kind("klt", {1: 0.5, 8: 0.009}),
        "relative": kind("klt", {1: 0.2, 4: 0.008, 8: 0.001}),
        "delta": kind("klt", {8: 0.3}),
    }
    found = tuple(RepresentationMeasurement(w, k.measurement) for w, k in made.items())
    record = replace(comparison(made["absolute"]), representations=found, variance=1.0)
    rows = representation_rows(record)
    assert [row[1] for row in rows] == ["absolute", "relative", "delta"]
    assert {len(row) for row in rows} == {len(HEADINGS)}
    (sentence,) = representation_sentences(record)
    assert sentence == (
        "klt leaves 1% of the variance with 4 tokens as relative, 8 tokens as absolute, not with "
        "delta."
    )


def test_nothing_is_said_where_nothing_was_compared() -> None:
    record = comparison(kind("klt", {1: 0.5}))
    assert (representation_rows(record), representation_sentences(record)) == ([], [])
