"""The words of a comparison, from records made by hand."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.comparison_findings import (
    cautions,
    cheapest_ways,
    sentences,
    share_left,
)
from oatkit.types import Property, SlotMeasurement
from tests.measure.reports.records import comparison, kind, probed


def test_the_cheapest_way_to_an_error() -> None:
    found = cheapest_ways(comparison(kind("oat", {1: 0.2, 4: 0.02}), kind("bin", {16: 0.001})))
    named = {reach.share: reach.by_tokens for reach in found}
    assert named[0.3] is not None
    assert (named[0.3][0], named[0.3][1].budget) == ("oat", 1)
    assert named[0.03] is not None
    assert (named[0.03][0], named[0.03][1].budget) == ("oat", 4)
    assert named[0.01] is not None
    assert named[0.01][0] == "bin"
    assert cheapest_ways(comparison(kind("oat", {1: 0.2})))[-1].by_bits is None


def test_the_reference_and_the_two_masks() -> None:
    said = sentences(
        comparison(kind("oat", {1: 0.2, 4: 0.02}), kind("oat-pow2", {1: 0.22, 4: 0.019}))
    )
    assert said[1] == (
        "oat leaves 20 / 2 % of the variance at 1 / 4 tokens, below the Gaussian reference at 4."
    )
    assert "differs by -5.0% to +10.0%" in said[3]
    assert "always below the Gaussian" in sentences(comparison(kind("klt", {1: 0.01, 4: 0.002})))[1]
    assert "(2 times it)" in sentences(comparison(kind("quest", {4: 0.1})))[1]
    assert "(2 times it at best)" in sentences(comparison(kind("klt", {1: 0.2, 4: 0.1})))[1]


def test_the_first_sentence_names_the_cheapest() -> None:
    oat, whole = kind("oat", {1: 0.2, 4: 0.02}), kind("bin", {16: 0.0001})
    assert sentences(comparison(oat, whole))[0] == (
        "bin needs the fewest tokens to leave at most 1% of the variance of the actions: "
        "16 tokens, 160 bits a chunk; that is reconstruction alone, and not what a policy learns "
        "best, which --policy-minutes finds out."
    )
    assert sentences(comparison(oat))[0].startswith(
        "oat needs the fewest tokens to leave at most 3% of the variance of the actions: 4 tokens"
    )
    assert sentences(comparison(kind("oat", {1: 0.9})))[0].startswith(
        "No kind leaves less than 30%"
    )
    assert share_left(comparison(oat), 1.0) == "100"


def test_where_policies_were_trained_they_come_first() -> None:
    oat, klt = kind("oat", {1: 0.2, 4: 0.02}), kind("klt", {1: 0.1, 4: 0.005})
    made = comparison(probed(oat, {1: 0.3, 4: 0.1}), probed(klt, {1: 0.4, 4: 0.2}), policy_steps=50)
    first, second = sentences(made)[:2]
    assert first.startswith("For a policy: oat with 4 tokens, on which")
    assert second == (
        "klt needs the fewest tokens to leave at most 1% of the variance of the actions: 4 tokens, "
        "40 bits a chunk."
    )
    lost = comparison(probed(oat, {1: 0.3, 4: 0.25}))
    assert any("No policy of this probe" in said for said in cautions(lost))


def test_what_looks_undertrained_is_said() -> None:
    falling = kind("quest", {4: 0.02}, losses=(9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5))
    settled = kind("acodec", {4: 0.02}, losses=(9, 5, 2, 1, 1, 1, 1, 1, 1, 1))
    assert cautions(comparison(settled)) == []
    (said,) = cautions(comparison(falling, settled))
    assert said.startswith("quest looks undertrained: its loss still fell by 70%")
    (said,) = cautions(comparison(settled, kind("klt", {1: 0.1, 4: 0.01})))
    assert said.startswith("Undertrained, it seems, because klt")
    assert said.endswith("acodec (0.02 against 0.01).")
    assert cautions(comparison(settled, kind("klt", {1: 0.1, 4: 0.03}))) == []


def test_other_cautions() -> None:
    fast = kind("fast", {4: 0.02})
    few = replace(fast, measurement=replace(fast.measurement, num_chunks=20))
    said = cautions(comparison(few))
    assert said[0] == "Only 20 held-out chunks were measured: the numbers are noisy."
    assert "fast is fitted on this data" in said[1]
    oat = kind("oat", {1: 0.2, 4: 0.3}, losses=(1.0,))
    no = Property(False, "the error falls at 0 of 1 steps (1, 4 tokens)")
    oat = replace(oat, properties=replace(oat.properties, ordered=no))
    flat = replace(oat.measurement, slots=(SlotMeasurement(0.001, 2.0),))
    said = cautions(comparison(replace(oat, measurement=flat)))
    assert said[0].startswith("oat is meant to be ordered, but the error falls at 0 of 1")
    assert said[1].startswith("oat uses little of its vocabulary: in 1 of 1 slots")
