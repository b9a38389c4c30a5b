"""Raw chunks as networks compute with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data import Normalizer
from oatkit.policies.normalized_actions import normalized_actions
from oatkit.policies.observation.embodiment import Embodiment
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations

SPEC = ObservationSpec(1, Normalizer("identity", np.zeros(2), np.ones(2)), {}, ())
ACTIONS = Normalizer("identity", np.ones(3), np.full(3, 2.0))
OBSERVED = Observations(
    torch.zeros(4, dtype=torch.int64), torch.zeros(4, 1, 5), (), torch.zeros(4, 1, 0).bool()
)


def test_one_robot_alone_keeps_its_steps() -> None:
    raw, is_pad = torch.randn(4, 6, 3), torch.rand(4, 6) > 0.5
    normal, same = normalized_actions(ACTIONS, SPEC, OBSERVED, raw, is_pad)
    torch.testing.assert_close(normal, (raw - 1) / 2)
    assert same is is_pad


@given(st.integers(2, 12), st.integers(2, 12))
def test_steps_of_a_robot_among_others_are_stretched(own: int, num_steps: int) -> None:
    place = Embodiment("a", 5, (), ("a",), (num_steps, 7))
    spec = replace(SPEC, embodiment=place)
    raw = torch.linspace(0, 1, own)[None, :, None].expand(4, own, 3)
    is_pad = torch.arange(own)[None].expand(4, own) >= own - 1
    normal, padding = normalized_actions(ACTIONS, spec, OBSERVED, raw, is_pad)
    line = (torch.linspace(0, 1, num_steps) - 1) / 2
    torch.testing.assert_close(normal, line[None, :, None].expand(4, num_steps, 3))
    assert padding is not None
    assert padding.shape == (4, num_steps)
    assert padding[:, -1].all(), "the ends are those of the episode"
    assert not padding[:, 0].any()
    assert normalized_actions(ACTIONS, spec, OBSERVED, raw, None)[1] is None


def test_another_number_of_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the 3 dimensions"):
        normalized_actions(ACTIONS, SPEC, OBSERVED, torch.zeros(4, 6, 2), None)
