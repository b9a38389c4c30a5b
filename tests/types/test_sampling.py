"""Sampling rules, against the distributions they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.types import Sampling

PROBABILITIES = torch.tensor([0.5, 0.3, 0.15, 0.05])
COUNT = 20_000


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        (Sampling(top_k=None), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(top_k=0), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(top_k=2), [0.5, 0.3, 0, 0]),
        (Sampling(0.5, top_k=3), [0.25, 0.09, 0.0225, 0]),
        (Sampling(top_p=0.79), [0.5, 0.3, 0, 0]),
        (Sampling(top_p=0.81), [0.5, 0.3, 0.15, 0]),
        (Sampling(top_p=0.01), [1, 0, 0, 0]),
        (Sampling(top_k=2, top_p=0.9), [0.5, 0.3, 0, 0]),
        (Sampling(0), [1, 0, 0, 0]),
    ],
)
def test_ids_follow_the_distribution(sampling: Sampling, wanted: list[float]) -> None:
    uniform = torch.rand(1, COUNT, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([2, 0, 3, 1])  # the likeliest id is not the first
    logits = PROBABILITIES.log()[order].expand(1, COUNT, 4)
    ids = order[sampling.choose(logits, uniform)]
    found = torch.bincount(ids.flatten(), minlength=4) / COUNT
    expected = torch.tensor(wanted) / sum(wanted)
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


@given(
    seed=st.integers(0, 1000),
    top_p=st.floats(0.01, 1.0),
    top_k=st.none() | st.integers(1, 9),
    temperature=st.floats(0, 5),
)
def test_the_ends_of_the_random_numbers_stay_inside_the_rules(
    seed: int, top_p: float, top_k: int | None, temperature: float
) -> None:
    """Also 0 and a number that float32 rounds to 1 give an id that the rules allow."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2, 3, 7, generator=generator)
    sampling = Sampling(temperature, top_k, top_p)
    for uniform in (torch.zeros(2, 3), torch.full((2, 3), 1.0)):
        ids = sampling.choose(logits, uniform)
        rank = (logits > logits.gather(-1, ids[..., None])).sum(dim=-1)
        before = torch.where(
            logits > logits.gather(-1, ids[..., None]),
            (logits / max(temperature, 1e-3)).softmax(dim=-1),
            0,
        ).sum(dim=-1)
        assert (rank < (top_k or 7)).all()
        if temperature > 0.01 and top_k is None:
            assert (before < top_p + 1e-5).all()


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        (Sampling(0.0, seed=3), Sampling(seed=3)),
        (Sampling(0.0, top_k=4, top_p=0.1), Sampling(top_k=4)),
        (Sampling(0.7, top_k=1), Sampling()),
        (Sampling(0.7, top_k=3, top_p=0.5), Sampling(0.7, top_k=3, top_p=0.5)),
    ],
)
def test_a_redraw_is_never_greedy(sampling: Sampling, wanted: Sampling) -> None:
    assert sampling.for_redraw == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, r"temperature is -1.0, expected 0 or more"),
        ({"temperature": float("nan")}, "temperature is nan, expected 0 or more"),
        ({"top_k": -1}, "top_k is -1, expected 0 or more"),
        ({"top_p": 0.0}, r"top_p is 0.0, expected more than 0 and at most 1"),
        ({"top_p": 1.5}, r"top_p is 1.5, expected more than 0 and at most 1"),
    ],
)
def test_impossible_rules_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)
