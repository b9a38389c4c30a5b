"""Tokenizers that do not fit the data or the schedule of a policy."""

from __future__ import annotations

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.policies.tokenizer_checks import require_endpoints, require_same_actions
from tests.policies import tiny


def test_a_tokenizer_of_another_action_dim(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    require_same_actions(tokenizer, dataset)
    other = oatkit.open_dataset(dataset.path, action_dims=[0, 1])
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 2"):
        require_same_actions(tokenizer, other)


def test_a_schedule_ends_where_the_tokenizer_does(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    require_endpoints(None, tokenizer)
    require_endpoints((8, 24), tokenizer)
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, bin has 24"):
        require_endpoints((8,), tokenizer)
