"""Measurements of policies against closed forms."""

from __future__ import annotations

import pytest
import torch

from oatkit.measure.policy_metrics import _variance_ratio


def test_a_dimension_that_never_moves_has_no_ratio_of_variances() -> None:
    wanted_BTA = torch.stack([torch.arange(12.0).view(3, 4), torch.ones(3, 4)], dim=-1)
    ratio, constant = _variance_ratio(2 * wanted_BTA, wanted_BTA)
    assert ratio == pytest.approx(4.0)
    assert constant is None
