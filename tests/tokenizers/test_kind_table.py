"""Names of kinds and settings are looked up in one table."""

from __future__ import annotations

import pytest

from oatkit.tokenizers import KINDS, make_codec, make_config
from oatkit.tokenizers.kind_table import kind_named
from tests.tokenizers.small_tokenizers import settings_of


def test_unknown_kinds_and_settings() -> None:
    with pytest.raises(ValueError, match=r"unknown tokenizer kind 'oat_pow2'; .* first: oat-pow2"):
        make_config("oat_pow2", horizon=8, action_dim=2)
    with pytest.raises(ValueError, match=r"unknown setting of bin 'bins'; .* first: num_bins"):
        make_config("bin", horizon=8, action_dim=2, bins=3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_makes_the_codec_of_its_kind(kind: str) -> None:
    config = make_config(kind, horizon=8, action_dim=2, **settings_of(kind))
    assert make_codec(config).config is config
    assert config.kind == kind
    assert {"horizon", "action_dim"} <= set(kind_named(kind).settings)
    assert "kind" not in kind_named(kind).settings


def test_lists_from_json_become_tuples() -> None:
    config = make_config("klt", horizon=8, action_dim=2, levels=[5, 4])
    assert config.levels == (5, 4)
    hash(config)
