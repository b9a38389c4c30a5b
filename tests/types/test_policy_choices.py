from __future__ import annotations

from typing import get_args

import torch

from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.policies.light.light_model import LightModel
from oatkit.tokenizers.fast import FastConfig
from oatkit.types import Decoding, Dtype, Head


def test_the_words_are_those_that_policies_know() -> None:
    assert {*LightModel.heads, *LightFlowModel.heads} == set(get_args(Head))
    assert FastConfig(horizon=2, action_dim=1).decoding in get_args(Decoding)
    assert all(isinstance(getattr(torch, name), torch.dtype) for name in get_args(Dtype))
