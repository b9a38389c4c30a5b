"""`fast`: strict and relaxed decoding, and the artifact as its authors publish it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oatkit.errors import ArtifactError, DecodeError
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.fast import Fast, FastConfig, read_published
from tests.tokenizers.small_tokenizers import ACTION_DIM, HORIZON, make, walks


def test_fast_strict_and_relaxed() -> None:
    tokenizer = make("fast")
    strict = tokenizer.codec
    loose = ActionTokenizer(strict, tokenizer.normalizer, tokenizer.data)
    loose.choose_decoding("relaxed")
    relaxed = loose.codec
    assert loose.digest != tokenizer.digest  # evaluations of the two do not mix
    ids = tokenizer(walks())
    np.testing.assert_array_equal(loose.decode(ids), tokenizer.decode(ids))
    assert relaxed.num_mended == 0

    short, long = [ids[0][:2]], [ids[0] + ids[1]]
    for broken in (short, long):
        with pytest.raises(DecodeError, match=r"coefficients and 0 invalid .* expected 24"):
            tokenizer.decode(broken)
        assert np.isfinite(loose.decode(broken)).all()
    assert relaxed.num_mended == 2
    np.testing.assert_array_equal(loose.decode(long), loose.decode([ids[0]]))
    assert loose.decode(ids[:1], budget=2).shape == (1, HORIZON, ACTION_DIM)

    rng = np.random.default_rng(0)
    sequences = rng.integers(tokenizer.vocab_size, size=(500, 12))
    assert np.isfinite(loose.decode(sequences)).all()


def test_a_published_fast_artifact_is_read_without_its_code(tmp_path: Path) -> None:
    tokenizer = make("fast")
    config = tokenizer.codec.config
    facts = {"min_token": config.lowest, "scale": config.scale, "vocab_size": config.vocab_size}
    (tmp_path / "processor_config.json").write_text(json.dumps(facts))
    for name, content in tokenizer.codec.learned_files().items():
        (tmp_path / name).write_bytes(content)
    published = read_published(tmp_path, horizon=HORIZON, action_dim=ACTION_DIM)
    again = ActionTokenizer(published, tokenizer.normalizer, tokenizer.data)
    ids = tokenizer(walks())
    assert again(walks()) == ids
    np.testing.assert_array_equal(again.decode(ids), tokenizer.decode(ids))
    (tmp_path / "processor_config.json").write_text("{}")
    with pytest.raises(ArtifactError, match="is no published FAST tokenizer"):
        read_published(tmp_path, horizon=HORIZON, action_dim=ACTION_DIM)


def test_only_fast_has_a_choice_of_decoding() -> None:
    tokenizer = make("bin")
    tokenizer.choose_decoding(None)
    with pytest.raises(ValueError, match="strict or relaxed decoding is for fast, not for bin"):
        tokenizer.choose_decoding("relaxed")


def test_fast_counts_what_it_clips() -> None:
    tokenizer = make("fast")
    before = tokenizer.codec.num_clipped
    tokenizer.decode(tokenizer(1000 * walks()[:3]))
    assert tokenizer.codec.num_clipped > before


def test_a_codec_that_is_not_fitted_says_so() -> None:
    codec = Fast(FastConfig(horizon=4, action_dim=2))
    for use in (
        lambda: codec.encode(torch.zeros(1, 4, 2)),
        lambda: codec.max_tokens,
        lambda: codec.vocab_size,
    ):
        with pytest.raises(
            ValueError, match="this fast tokenizer is not fitted yet: make one with"
        ):
            use()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": 0.0}, r"scale is 0\.0, expected more than 0"),
        ({"decoding": "loose"}, "decoding is 'loose', expected 'strict' or 'relaxed'"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FastConfig(8, 2, **settings)  # type: ignore[arg-type]


def test_the_error_is_that_of_rounding_coefficients() -> None:
    """RMS, normalized; the cosine transform keeps squares."""
    tokenizer = make("fast")
    decoded = tokenizer.normalizer.normalize(tokenizer.decode(tokenizer(walks())))
    error = decoded - tokenizer.normalizer.normalize(walks())
    assert np.sqrt(np.square(error).mean()) < 0.5 / tokenizer.codec.config.scale


def test_byte_pairs_are_counted_in_some_chunks_and_the_range_is_that_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oatkit.tokenizers.fast.MAX_CHUNKS", 16)
    torch.manual_seed(0)
    chunks = torch.randn(100, 8, 2).cumsum(dim=1)
    chunks[99] *= 50
    read: list[int] = []
    codec = Fast(FastConfig(8, 2, vocab_size=300))
    texts = codec._texts

    def counted(coefficients: Any) -> list[str]:
        read.append(len(coefficients))
        return texts(coefficients)

    monkeypatch.setattr(codec, "_texts", counted)
    codec.fit(lambda: iter(torch.split(chunks, 30)))
    assert sum(read) == 15, "every seventh"
    assert codec.config.highest is not None
    assert codec.config.highest >= int(codec._coefficients(chunks).max())
    codec.encode(chunks)
    assert codec.num_clipped == 0
