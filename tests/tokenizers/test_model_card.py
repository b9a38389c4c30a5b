"""The README of a tokenizer's artifact."""

from __future__ import annotations

import numpy as np

import oatkit
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.model_card import model_card


def card(actions: str | None) -> str:
    given = {"action": np.arange(20.0).reshape(10, 2), "state": np.ones((10, 2))}
    dataset = oatkit.open_dataset(given, actions=actions)
    config = make_config("bin", horizon=4, action_dim=2)
    return model_card(ActionTokenizer.for_dataset(config, dataset))


def test_the_card_shows_how_to_call_it() -> None:
    assert "Chunks of 4 x 2 actions" in card(None)
    assert "tokens = tokenizer.encode(actions)" in card(None)
    assert "represented" not in card(None)


def test_the_card_says_how_actions_are_represented() -> None:
    relative = card("relative:0")
    assert "Actions are represented as `relative:0@0`." in relative
    assert "tokenizer.encode(actions, state=state)" in relative
