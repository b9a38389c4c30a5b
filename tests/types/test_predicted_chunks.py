from __future__ import annotations

import oatkit
from oatkit.policies.generation.prediction import Prediction as Told
from oatkit.types import Prediction


def test_it_is_one_word_everywhere() -> None:
    assert Prediction is oatkit.Prediction is oatkit.policies.Prediction is Told


def test_what_a_policy_does_not_say_is_none() -> None:
    found = Prediction(None, None, None, None, None, None, 1.0)
    assert (found.execute_steps, found.draws, found.stopped) == (None, None, None)
