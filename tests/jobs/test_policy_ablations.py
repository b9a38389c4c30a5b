"""The rows of the sweep in closed loop."""

from __future__ import annotations

from collections import Counter

from oatkit.jobs.policy_ablations import closed_loop_ablations


def test_plans_are_the_papers() -> None:
    rows = list(closed_loop_ablations())
    assert Counter(row.ablation for row in rows) == {
        "horizons-half": 16,
        "horizons-fixed": 16,
        "levels": 5,
    }
    assert {row.execute / row.horizon for row in rows if row.ablation == "horizons-half"} == {0.5}
    assert {row.execute for row in rows if row.ablation == "horizons-fixed"} == {8}
    assert {(row.horizon, row.num_tokens) for row in rows if row.ablation == "levels"} == {(32, 8)}
    assert len({row.name for row in rows}) == 16 + 5 - 1  # one policy is in all three
