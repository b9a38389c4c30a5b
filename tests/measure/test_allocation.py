"""The paper's information allocation against sampling, a worked example and any function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.measure.allocation import expanded_error, measure_allocation, survival_weights
from oatkit.measure.encoded_chunks import encode_chunks
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.tokenizers.oat import Oat, OatConfig
from tests.measure.walks import make_tokenizer, walks


def test_a_worked_example() -> None:
    """K is 1 or 2 or 4; the errors of 0 .. 4 tokens are 10, 6, 3, 2, 1."""
    weights = survival_weights((1, 2, 4), 4)
    assert weights.tolist() == pytest.approx([1, 2 / 3, 1 / 3, 1 / 3])
    # 10 - (4 + 3 * 2/3 + 1 * 1/3 + 1 * 1/3), and the mean of 6, 3 and 1
    assert expanded_error([10, 6, 3, 2, 1], weights) == pytest.approx(10 / 3)


@given(st.data())
def test_the_identity_holds_for_any_errors_and_budgets(data: st.DataObject) -> None:
    num_tokens = data.draw(st.integers(1, 20))
    budgets = data.draw(st.sets(st.integers(1, num_tokens), min_size=1).map(sorted))
    sizes = st.lists(st.floats(-1e3, 1e3), min_size=num_tokens + 1, max_size=num_tokens + 1)
    errors = data.draw(sizes)
    expected = np.mean([errors[k] for k in budgets])
    found = expanded_error(errors, survival_weights(budgets, num_tokens))
    assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("budgets", [None, (3, 5, 8)])
def test_survival_weights_are_the_frequencies_of_training(budgets: tuple[int, ...] | None) -> None:
    sizes = {"width": 8, "num_layers": 1, "num_heads": 1}
    codec = Oat(OatConfig(4, 2, num_tokens=8, budgets=budgets, **sizes))
    budget_B = SampleRandom(sample_keys(0, 0, torch.arange(100_000))).choose(codec.budgets)
    kept_BK = torch.arange(1, 9) <= budget_B[:, None]
    weights = survival_weights(codec.budgets, 8)
    np.testing.assert_allclose(kept_BK.double().mean(dim=0), weights, atol=0.01)


def test_both_sides_agree_on_a_tokenizer(tmp_path: Path) -> None:
    dataset = walks(tmp_path)
    tokenizer = make_tokenizer("oat", dataset, num_tokens=6, width=16, num_layers=1)
    measured = measure_tokenizer(tokenizer, dataset)
    found = measure_allocation(tokenizer, encode_chunks(tokenizer, dataset), measured)
    assert found.budgets == (1, 2, 4, 6)
    assert len(found.errors) == 7
    assert len(found.gains) == len(found.survival) == 6
    assert found.expected_error == pytest.approx(found.expanded_error, rel=1e-5)
    assert found.expected_error != found.errors[0]
