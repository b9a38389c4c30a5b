from __future__ import annotations

import numpy as np
import pytest

from oatkit.tokenizers.prefix_chunks import prefix_chunks
from tests.tokenizers.small_tokenizers import make, walks


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "klt"])
def test_every_budget_of_ordered_tokens(kind: str) -> None:
    tokenizer = make(kind)
    (ids,) = tokenizer(walks()[:1])
    found = prefix_chunks(tokenizer, ids)
    assert list(found) == list(tokenizer.budgets)
    tokens = tokenizer.encode(walks()[:1])
    for budget, chunk in found.items():
        np.testing.assert_array_equal(chunk, tokenizer.decode(tokens, budget)[0])


def test_only_the_budgets_that_were_generated() -> None:
    tokenizer = make("oat")
    (ids,) = tokenizer(walks()[:1])
    assert list(prefix_chunks(tokenizer, ids[:3])) == [1, 2, 3]
    assert prefix_chunks(tokenizer, []) == {}


@pytest.mark.parametrize("kind", ["bin", "quest", "fast"])
def test_tokens_without_order_are_decoded_whole(kind: str) -> None:
    tokenizer = make(kind)
    (ids,) = tokenizer(walks()[:1])
    assert list(prefix_chunks(tokenizer, ids)) == [len(ids)]
