"""The rules of the robot are those of `oatkit.types.Sampling`."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oatkit_client.sampling import Sampling

from oatkit import types

RULES = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.3, "top_k": 3},
    {"temperature": 2.0, "top_k": None},
    {"top_k": 1},
    {"top_k": 1000},
    {"top_p": 0.7},
    {"top_p": 0.7, "top_k": None, "temperature": 1.5},
    {"top_p": 1e-9},
]


def test_fields_and_defaults_are_equal() -> None:
    ours, theirs = (
        [(field.name, field.type, field.default) for field in fields(made)]
        for made in (Sampling, types.Sampling)
    )
    assert ours == theirs
    assert Sampling(top_k=0).top_k is types.Sampling(top_k=0).top_k is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"seed": -1},
        {"seed": 2**63},
    ],
)
def test_the_same_is_refused_in_the_same_words(wrong: dict[str, Any]) -> None:
    said = []
    for made in (Sampling, types.Sampling):
        with pytest.raises(ValueError, match=next(iter(wrong))) as raised:
            made(**wrong)
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("rules", RULES, ids=str)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_same_ids_are_chosen(rules: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits_GV = rng.normal(scale=3, size=(64, 50)).astype(np.float32)
    uniform_G = rng.random(64, dtype=np.float32)
    ours = Sampling(**rules).choose(logits_GV, uniform_G)
    theirs = types.Sampling(**rules).choose(
        torch.from_numpy(logits_GV)[None], torch.from_numpy(uniform_G)[None]
    )[0]
    # a random number that falls between two ids by less than float32 resolves may go either way
    assert (ours == theirs.numpy()).mean() > 0.98
    if Sampling(**rules).is_greedy:
        np.testing.assert_array_equal(ours, logits_GV.argmax(axis=-1))


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_further_draws_have_the_same_rules(rules: dict[str, Any]) -> None:
    ours, theirs = Sampling(**rules).for_redraw, types.Sampling(**rules).for_redraw
    assert asdict(ours) == asdict(theirs)


def test_ids_are_chosen_by_their_probability() -> None:
    logits_GV = np.log(np.tile([[0.1, 0.6, 0.3]], (100_000, 1))).astype(np.float32)
    uniform_G = np.random.default_rng(0).random(len(logits_GV))
    for rules, expected in (
        ({}, [0.1, 0.6, 0.3]),
        ({"top_k": 2}, [0, 2 / 3, 1 / 3]),
        ({"top_p": 0.5}, [0, 1, 0]),
        ({"top_p": 0.61}, [0, 2 / 3, 1 / 3]),
        ({"temperature": 0.5}, np.square([0.1, 0.6, 0.3]) / 0.46),
    ):
        found = np.bincount(Sampling(**rules).choose(logits_GV, uniform_G), minlength=3)
        np.testing.assert_allclose(found / len(logits_GV), expected, atol=0.01)
