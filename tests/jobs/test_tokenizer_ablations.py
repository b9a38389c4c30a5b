"""The rows of the tokenizer's sweep, and the sweep from Python."""

from __future__ import annotations

from oatkit.jobs.tokenizer_ablations import tokenizer_ablations


def test_the_rows_are_the_papers() -> None:
    rows = list(tokenizer_ablations())
    assert [row.levels for row in rows if row.ablation == "levels"] == [
        *((8, 6, 5), (8, 8, 8), (8, 5, 5, 5), (8, 8, 6, 5), (7, 5, 5, 5, 5))
    ]
    grid = {(row.horizon, row.num_tokens) for row in rows if row.ablation == "horizons"}
    assert grid == {(h, n) for h in (8, 16, 32, 64) for n in (1, 2, 4, 8)}
    assert [row.nested_dropout for row in rows if row.ablation == "nesting"] == [False, True]
