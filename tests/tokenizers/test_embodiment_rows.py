"""The rows that tell a learned codec the robot."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.nn.sample_random import SampleRandom
from oatkit.tokenizers.embodiment_rows import add_row, for_embodiment
from oatkit.tokenizers.kind_table import make_codec, make_config

SIZES = {"horizon": 8, "action_dim": 3, "width": 16, "num_layers": 1, "num_heads": 2}
KINDS = ("oat", "oat-pow2", "quest", "acodec")


def told(kind: str, **settings: object) -> torch.nn.Module:
    torch.manual_seed(0)
    more = {} if kind == "quest" else {"num_tokens": 4}
    codec = make_codec(make_config(kind, **SIZES, **more, embodiments=("a", "b"), **settings))
    assert isinstance(codec, torch.nn.Module)
    for parameter in codec.embodiments.parameters():  # type: ignore[union-attr]
        torch.nn.init.normal_(parameter)
    return codec.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_several_robots_is_each_of_them_alone(kind: str) -> None:
    codec = told(kind)
    actions = torch.randn(4, 8, 3)
    number = torch.tensor([1, 0, 0, 1])
    both = codec._latents(actions, None, number)  # type: ignore[operator]
    for name, place in (("a", 0), ("b", 1)):
        own = for_embodiment(codec, name)  # type: ignore[arg-type]
        alone = own._latents(actions[number == place])  # type: ignore[attr-defined]
        torch.testing.assert_close(alone, both[number == place])
    random = SampleRandom(torch.arange(4))
    losses = [
        codec.loss(actions, random, None, torch.full((4,), place)).total.item()  # type: ignore[operator]
        for place in (0, 1)
    ]
    assert losses[0] != losses[1]


@pytest.mark.parametrize("kind", KINDS)
def test_robots_share_weights_and_a_new_one_has_the_mean(kind: str) -> None:
    codec = told(kind)
    own = for_embodiment(codec, "b")  # type: ignore[arg-type]
    assert own.state_dict()["embed.weight"].data_ptr() == codec.embed.weight.data_ptr()  # type: ignore[union-attr]
    assert (codec.config.embodiment, own.config.embodiment) == (None, "b")  # type: ignore[union-attr]
    rows = codec.embodiments.decoder  # type: ignore[union-attr]
    queries = {name: for_embodiment(codec, name).step_queries() for name in ("a", "b", None)}  # type: ignore[arg-type,attr-defined]
    torch.testing.assert_close(queries["b"] - queries["a"], (rows[1] - rows[0]).expand(1, 8, -1))
    torch.testing.assert_close(queries[None], (queries["a"] + queries["b"]) / 2)
    with pytest.raises(ValueError, match="unknown embodiment 'c'; known, closest first: a, b"):
        for_embodiment(codec, "c")  # type: ignore[arg-type]


def test_a_codec_without_rows_is_given_back() -> None:
    codec = make_codec(make_config("bin", horizon=4, action_dim=2))
    assert for_embodiment(codec, "a") is codec


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(0, 100))
def test_rows_are_added_to_every_slot(numbers: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x, table = torch.randn(len(numbers), 3, 4), torch.randn(3, 4)
    found = add_row(x, table, None, torch.tensor(numbers))
    for row, number in enumerate(numbers):
        torch.testing.assert_close(found[row], x[row] + table[number])


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match=r"embodiments are \['a', 'a'\], expected a name once"):
        make_config("oat", horizon=8, action_dim=2, embodiments=("a", "a"))
    with pytest.raises(ValueError, match="refined tokens are not told the embodiment"):
        make_config("oat", horizon=8, action_dim=2, refine=2, embodiments=("a",))
