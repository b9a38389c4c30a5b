"""States that are far outside of what a policy was trained on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oatkit_client.training_range import TrainingRange

from oatkit.data.normalizer import Normalizer

MIN_MAX = {"mode": "min_max", "offset": [0.5, 10.0], "scale": [0.5, 2.0]}


def test_the_worst_dimension_is_named_with_its_value_and_range() -> None:
    known = TrainingRange(MIN_MAX, ["shoulder", "elbow"])
    assert known.find_far([0.9, 13.0]) is None
    far = known.find_far([[0.9, 11.0], [57.0, 17.0]])
    assert far is not None
    assert far.name == "shoulder"
    assert far.sentence == (
        "the state is far outside of the training data: shoulder is 57, in training it was 0 to 1; "
        "are units and order the same?"
    )
    unnamed = TrainingRange(MIN_MAX).find_far([0.5, -1e6])
    assert unnamed is not None
    assert unnamed.name == "1"


@given(st.floats(-3, 3))
def test_what_is_near_the_range_is_not_far(normalized: float) -> None:
    state = Normalizer.from_json(MIN_MAX).unnormalize(np.array([normalized, 0.0]))
    assert (TrainingRange(MIN_MAX).find_far(state) is None) or abs(normalized) > 2.999


@pytest.mark.parametrize(
    ("normalization", "state", "is_far"),
    [
        (None, [1e9, 1e9], False),
        ({**MIN_MAX, "mode": "identity"}, [1e9, 1e9], False),
        ({**MIN_MAX, "mode": "mean_std"}, [0.5, 10 + 14 * 2.0], False),
        ({**MIN_MAX, "mode": "mean_std"}, [0.5, 10 + 16 * 2.0], True),
        ({**MIN_MAX, "mode": "quantiles"}, [0.5, 10 + 4 * 2.0], True),
        (MIN_MAX, [1e9], False),
        (MIN_MAX, [], False),
    ],
)
def test_modes_and_sizes(normalization: dict | None, state: list[float], is_far: bool) -> None:
    assert (TrainingRange(normalization).find_far(state) is not None) == is_far
