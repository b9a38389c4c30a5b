"""What metrics are computed from."""

from __future__ import annotations

import numpy as np
import torch

from tests.measure.decoded import decoded


def test_the_error_is_decoded_less_true_in_double_precision() -> None:
    found = decoded(torch.ones(2, 4, 3), torch.full((2, 4, 3), 3.0))
    assert found.error.dtype == np.float64
    np.testing.assert_array_equal(found.error, np.full((2, 4, 3), 2.0))
    assert found.error is found.error, "it is computed once for all metrics"
