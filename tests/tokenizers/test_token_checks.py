"""Ids and lengths that a codec decodes, and those that it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from oatkit.tokenizers.token_checks import checked_tokens
from oatkit.types import Tokens
from tests.tokenizers.small_tokenizers import make


def test_ids_of_any_form_are_the_same_tokens() -> None:
    codec = make("oat").codec
    ids = [[1, 2, 3], [3, 2, 1]]
    for given in (ids, np.array(ids), torch.tensor(ids), Tokens.full(torch.tensor(ids))):
        found = checked_tokens(codec, given)
        assert found.ids.tolist() == ids
        assert found.lengths.tolist() == [3, 3]


def test_a_budget_keeps_the_first_and_what_is_padding_may_be_anything() -> None:
    codec = make("oat").codec
    tokens = Tokens(torch.tensor([[1, 2, 3], [1, -7, 99999]]), torch.tensor([3, 1]))
    assert checked_tokens(codec, tokens).ids.tolist() == [[1, 2, 3], [1, 0, 0]]
    assert checked_tokens(codec, tokens, budget=2).lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("kind", "ids", "budget", "message"),
    [
        ("oat", [[1]], 0, r"budget 0 is outside 1 \.\. "),
        ("oat", [[1]], "auto", r"budget is 'auto', expected a number 1 \.\. "),
        ("oat", [[1]], 2.5, r"budget is 2\.5, expected a number 1 \.\. "),
        ("oat", [1, 2], None, r"ids are one sequence, expected a batch of sequences: \[ids\]"),
        ("oat", np.array([1, 2]), None, "ids are one sequence"),
        ("oat", torch.tensor([1, 2]), None, "ids are one sequence"),
        (
            "oat",
            [[1, -1]],
            None,
            r"id -1 at slot 1 of sequence 0 is outside the vocabulary 0 \.\. ",
        ),
        ("oat", [[0] * 99], None, "a sequence has 99 tokens, oat has "),
        ("bin", [[1]], None, "bin decodes only all of its tokens: budget 1 is none of "),
    ],
)
def test_what_a_codec_does_not_decode(kind: str, ids: Any, budget: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_tokens(make(kind).codec, ids, budget)
