"""What the ends of intervals and the recipes of rows decide."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import claim_findings as claims
from oatkit.evaluation.success_statistics import compare_pairs, success_rate


@pytest.mark.parametrize(
    ("low", "high", "larger", "nothing"),
    [
        (0.01, 0.2, claims.AGREES, claims.UNSURE),
        (0.06, 0.2, claims.AGREES, claims.DIFFERS),
        (-0.2, -0.06, claims.DIFFERS, claims.DIFFERS),
        (-0.04, 0.04, claims.UNSURE, claims.AGREES),
        (-0.2, 0.2, claims.UNSURE, claims.UNSURE),
    ],
)
def test_ends_of_intervals_decide(low: float, high: float, larger: str, nothing: str) -> None:
    assert claims.is_larger(low, high) == larger
    assert claims.is_nothing(low, high) == nothing


@given(st.lists(st.dictionaries(st.sampled_from(["steps", "frames"]), st.integers(0, 2))))
def test_recipes_are_alike_if_and_only_if_nothing_differs(recipes: list[dict[str, int]]) -> None:
    whole = [{"steps": r.get("steps"), "frames": r.get("frames")} for r in recipes]
    assert (claims.differences(whole) == "") == all(r == whole[0] for r in whole)


def test_fitted_tokenizers_have_no_steps_that_could_differ() -> None:
    assert claims.differences([{claims.FITTED: None}, {claims.FITTED: 800}]) == ""
    assert claims.differences([{claims.FITTED: 10}, {claims.FITTED: 800}]) != ""


@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=9),
        min_size=1,
        max_size=4,
    )
)
def test_pooled_differences_are_means_over_episodes(each: list[list[tuple[bool, bool]]]) -> None:
    pairs = [asdict(compare_pairs("1", "8", one)) for one in each]
    change, low, high = claims.pooled_difference(pairs)
    every = [pair for one in each for pair in one]
    assert change == pytest.approx(sum(b - a for a, b in every) / len(every))
    assert low <= change <= high
    if len(pairs) == 1:
        assert (low, high) == pytest.approx((pairs[0]["low"], pairs[0]["high"]))


def test_independent_differences_are_newcombes() -> None:
    """The example of Newcombe (1998): 56 of 70 against 48 of 80."""
    first, second = (asdict(success_rate(*counts)) for counts in ((48, 80), (56, 70)))
    change, low, high = claims.difference(first, second)
    assert (round(change, 4), round(low, 4), round(high, 4)) == (0.2, 0.0524, 0.3339)


def acting(*solved: dict[str, str], source: str = "policy_sweep") -> claims.Acting:
    """A policy whose trainings solved these episodes."""
    found = [letter for each in solved for letters in each.values() for letter in letters]
    success = asdict(success_rate(found.count("1"), len(found)))
    recipes = ({"steps": 9},) * len(solved)
    return claims.Acting(success, "temperature 0", source, recipes, dict(enumerate(solved)))


def test_the_same_episodes_are_compared_pair_by_pair() -> None:
    first, second = acting({"push": "0010" * 10}), acting({"push": "0011" * 10})
    found = claims.compared(lambda: first, lambda: second, claims.is_larger)()
    assert found.status == claims.AGREES
    assert "+25 points" in found.ours
    assert "the same 40 episodes of 1 and 1 seeds" in found.ours
    change, low, high = second.less(first)
    assert first.less(second) == pytest.approx((-change, -high, -low))


@pytest.mark.parametrize(
    "other",
    [
        acting({"push": "0011" * 9 + "00"}),
        acting({"pull": "0011" * 10}),
        acting({"push": "0011" * 10}, {"push": "0011" * 10}),
        acting({"push": "0011" * 10}, source="control"),
    ],
)
def test_other_episodes_are_compared_as_independent_ones(other: claims.Acting) -> None:
    first = acting({"push": "0010" * 10})
    assert not first.is_paired_with(other)
    assert other.less(first) == claims.difference(first.success, other.success)
    found = claims.compared(lambda: first, lambda: other, claims.is_larger)()
    assert f"40 and {other.success['episodes']} episodes, unpaired, of 1 and" in found.ours


def test_other_goals_are_other_episodes() -> None:
    first, other = acting({"push": "0010" * 10}), acting({"push": "0011" * 10})
    assert other.is_paired_with(first)
    assert not replace(other, solved={1: other.solved[0]}).is_paired_with(first)
    assert not replace(other, recipes=other.recipes * 2).is_paired_with(first), "of one training"


def rates(one: int, other: int, steps: int = 9) -> claims.Pair:
    """Two policies that solve so many of 200 episodes each."""
    first, second = (
        claims.Acting(asdict(success_rate(n, 200)), "temperature 0", "control", ({"steps": s},))
        for n, s in ((one, 9), (other, steps))
    )
    return first, second


@pytest.mark.parametrize(
    ("pairs", "status"),
    [
        ({"a": rates(40, 120), "b": rates(80, 82)}, claims.AGREES),
        ({"a": rates(40, 120), "b": rates(120, 40)}, claims.DIFFERS),
        ({"a": rates(80, 82), "b": rates(82, 80)}, claims.UNSURE),
        ({"a": rates(40, 120), "b": (None, rates(1, 1)[1])}, claims.AGREES),
        ({"a": rates(80, 82), "b": rates(120, 40, steps=5)}, claims.UNSURE),
        ({"b": (None, None)}, claims.MISSING),
    ],
)
def test_every_pair_of_a_trend_that_was_measured_counts(
    pairs: dict[str, claims.Pair], status: str
) -> None:
    found = claims.trend(lambda: pairs)()
    assert found.status == status
    for name, (one, other) in pairs.items():
        assert (f"{name}: " in found.ours) == (None not in (one, other))


def test_a_trend_says_what_each_pair_found() -> None:
    found = claims.trend(lambda: {"a": rates(40, 120), "b": rates(80, 82)})()
    assert found.ours == (
        "a: 20 and 60 %, +40 points (+31 to +48) (agrees); b: 40 and 41 %, +1 points (-9 to +11) "
        "(too few episodes to tell); each of 200 episodes of 1 seed, temperature 0, 9 steps"
    )
    unlike = claims.trend(lambda: {"a": rates(40, 120, steps=5)})()
    assert unlike.status == f"{claims.MISSING} (not only the tokens differ: steps 9 and 5)"
