"""Metrics of chunks whose errors are known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from oatkit.measure import budget_metrics
from oatkit.measure.gaussian import gaussian_distortion
from oatkit.types import Tokens
from tests.measure.decoded import decoded


def test_rates_are_counted_from_the_tokens() -> None:
    found = decoded(torch.zeros(3, 8, 2), torch.zeros(3, 8, 2))
    assert budget_metrics.tokens(found) == 2
    assert budget_metrics.bits(found) == 2 * math.log2(16)
    assert budget_metrics.entropy_bits(found) == 3 + 1
    assert budget_metrics.entropy_bits(replace(found, budget=1)) == 3


def test_errors_in_raw_and_normalized_units_with_and_without_padding() -> None:
    wanted_BTA = torch.zeros(1, 4, 2)
    found_BTA = wanted_BTA.clone()
    found_BTA[0, 3] = 4.0
    is_pad = np.array([[False, False, True, True]])
    found = replace(decoded(wanted_BTA, found_BTA), is_pad=is_pad)
    assert budget_metrics.mse(found) == 4**2 / 4
    assert budget_metrics.mse_without_padding(found) == 0
    assert budget_metrics.mse_normalized(found) == (4 / 2) ** 2 / 4
    assert budget_metrics.gaussian_mse(found) == gaussian_distortion(np.ones(8), 8.0)


def test_jerk_is_that_of_the_third_difference() -> None:
    time_T = torch.arange(8.0)
    cubic_BTA = (time_T**3).view(1, 8, 1)  # third difference 6 everywhere
    twice = decoded(cubic_BTA, 2 * cubic_BTA + 5 * time_T.view(1, 8, 1))
    assert budget_metrics.jerk_ratio(twice) == pytest.approx(4)
    short = decoded(cubic_BTA[:, :3], cubic_BTA[:, :3])
    assert budget_metrics.jerk_ratio(short) == 0, "three steps have no third difference"


def test_overlap_counts_tokens_that_the_next_chunk_has_in_the_same_place() -> None:
    steps_N = torch.arange(6.0)
    chunks_BTA = torch.stack([steps_N[i : i + 3] for i in (0, 1, 3)])[..., None]
    ids_BK = torch.tensor([[5, 7, 9], [5, 9, 9], [5, 9, 9]])
    # only the second chunk follows its neighbor by one step
    found = replace(decoded(chunks_BTA, chunks_BTA), tokens=Tokens.full(ids_BK))
    assert budget_metrics.overlap(found) == pytest.approx(2 / 3)
    shorter = Tokens(ids_BK, torch.tensor([3, 2, 3]))
    assert budget_metrics.overlap(replace(found, tokens=shorter)) == pytest.approx(1 / 3)
    alone = replace(decoded(chunks_BTA[1:], chunks_BTA[1:]), tokens=Tokens.full(ids_BK[1:]))
    assert math.isnan(budget_metrics.overlap(alone))
