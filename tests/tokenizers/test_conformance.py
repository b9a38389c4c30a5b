"""One suite for all kinds: whatever the kind, an `ActionTokenizer` behaves like this."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.errors import ArtifactError, DecodeError
from oatkit.tokenizers import KINDS, ActionTokenizer, load_tokenizer, make_codec, make_config
from oatkit.tokenizers.action_tokenizer import DataFacts
from oatkit.tokenizers.codec import FittedCodec, LearnedCodec
from oatkit.types import Tokens

HORIZON, ACTION_DIM = 8, 3
LEARNED = {"width": 32, "num_layers": 1, "num_heads": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "oat": {"num_tokens": 6, "levels": (5, 4), **LEARNED},
    "oat-pow2": {"num_tokens": 8, "levels": (5, 4), **LEARNED},
    "bin": {},
    "fast": {"vocab_size": 300},
    "quest": {"levels": (5, 4), **LEARNED},
    "acodec": {"num_tokens": 4, "codebook_size": 32, "latent_dim": 8, **LEARNED},
    "klt": {"num_tokens": 6, "levels": (5, 4)},
    "klt, scalar cells": {"num_tokens": 6, "levels": (5, 4), "cells": "scalar"},
    "oat, refined": {"num_tokens": 2, "refine": 4, "levels": (5, 4), **LEARNED},
    "oat-pow2, refined": {"num_tokens": 4, "refine": 4, "levels": (5, 4), **LEARNED},
}
"""What is tried: a kind, and settings after a comma."""
TOTAL = sorted(SETTINGS.keys() - {"fast"})
WITH_PREFIXES = sorted(name for name in SETTINGS if name.startswith(("klt", "oat")))


@cache
def walks() -> NDArray[np.float32]:
    """(512, T, A): smooth raw chunks, each dimension in its own units."""
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(512, HORIZON, ACTION_DIM)).cumsum(axis=1)
    return (steps * [1.0, 100.0, 0.01] + [5.0, 0.0, -0.2]).astype(np.float32)


@cache
def make(name: str) -> ActionTokenizer:
    """A tokenizer with random weights where it would be trained, fitted where it is fitted."""
    torch.manual_seed(0)
    kind = name.split(",")[0]
    rows = walks().reshape(-1, ACTION_DIM)
    statistics = compute_statistics(lambda: [rows], dim=ACTION_DIM)
    normalizer = Normalizer.fit(statistics, KINDS[kind].normalization)
    settings = {"horizon": HORIZON, "action_dim": ACTION_DIM, **SETTINGS[name]}
    codec = make_codec(make_config(kind, **settings))
    if isinstance(codec, FittedCodec):
        chunks = torch.from_numpy(normalizer.normalize(walks()))
        codec.fit(lambda: iter(chunks.split(100)))
    if kind == "acodec":
        codec.quantizer.codebook.copy_(torch.randn_like(codec.quantizer.codebook))
    facts = DataFacts(statistics, "f00d", ("x", "y", "z"), 20.0)
    return ActionTokenizer(codec, normalizer, facts, {"note": "kept"})


@pytest.fixture(params=SETTINGS)
def tokenizer(request: pytest.FixtureRequest) -> ActionTokenizer:
    return make(request.param)


def assert_alike(
    tokenizer: ActionTokenizer, a: NDArray[np.float32], b: NDArray[np.float32]
) -> None:
    """Equal to float tolerance in normalized units, where all dimensions have one scale."""
    normalize = tokenizer.normalizer.normalize
    np.testing.assert_allclose(normalize(a), normalize(b), rtol=1e-5, atol=1e-5)


def test_ids_are_in_range_and_lengths_within_bounds(tokenizer: ActionTokenizer) -> None:
    tokens = tokenizer.encode(walks())
    assert tokens.ids.dtype == torch.int64
    assert 0 <= tokens.ids.min() <= tokens.ids.max() < tokenizer.vocab_size
    assert tokens.lengths.max() <= tokenizer.max_tokens
    if tokenizer.is_fixed_length:
        assert (tokens.lengths == tokenizer.max_tokens).all()
    assert tokenizer.schedule.num_tokens == tokenizer.max_tokens
    assert tokenizer.budgets[-1] == tokenizer.max_tokens
    assert tokenizer.kind in repr(tokenizer)


def test_decoding_gives_raw_chunks(tokenizer: ActionTokenizer) -> None:
    decoded = tokenizer.decode(tokenizer.encode(walks()))
    assert decoded.shape == walks().shape
    assert torch.isfinite(decoded).all()


@pytest.mark.parametrize(("kind", "largest"), [("bin", 1 / 256), ("fast", 0.15), ("klt", 0.25)])
def test_round_trip_within_the_kinds_error(kind: str, largest: float) -> None:
    """Of untrained kinds nothing can be expected; these are computed. RMS, normalized."""
    tokenizer = make(kind)
    decoded = tokenizer.decode(tokenizer(walks()))
    error = tokenizer.normalizer.normalize(decoded) - tokenizer.normalizer.normalize(walks())
    assert np.sqrt(np.square(error).mean()) < largest


def test_encoding_is_deterministic_and_batch_equals_loop(tokenizer: ActionTokenizer) -> None:
    chunks = walks()[:20]
    together = tokenizer(chunks)
    assert together == tokenizer(chunks)
    assert together == [tokenizer(chunk)[0] for chunk in chunks]
    apart = np.concatenate([tokenizer.decode([ids]) for ids in together])
    assert_alike(tokenizer, tokenizer.decode(together), apart)


def test_what_goes_in_decides_what_comes_out(tokenizer: ActionTokenizer) -> None:
    chunks = walks()[:4]
    ids = tokenizer(chunks)
    assert tokenizer(torch.from_numpy(chunks)) == tokenizer(chunks.tolist()) == ids
    from_lists = tokenizer.decode(ids)
    assert isinstance(from_lists, np.ndarray)
    tokens = tokenizer.encode(torch.from_numpy(chunks))
    from_tokens = tokenizer.decode(tokens)
    assert isinstance(from_tokens, torch.Tensor)
    np.testing.assert_array_equal(from_tokens.numpy(), from_lists)
    if tokenizer.is_fixed_length:
        assert isinstance(tokenizer.decode(tokens.ids), torch.Tensor)
        np.testing.assert_array_equal(tokenizer.decode(np.array(ids)), from_lists)


def test_an_artifact_is_the_same_tokenizer(tokenizer: ActionTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path / "t")
    back = load_tokenizer(tmp_path / "t")
    assert back.kind == tokenizer.kind
    assert back.codec.config == tokenizer.codec.config
    assert back(walks()) == tokenizer(walks())
    ids = tokenizer(walks()[:9])
    np.testing.assert_array_equal(back.decode(ids), tokenizer.decode(ids))
    assert (back.data.fingerprint, back.data.fps, back.extras) == ("f00d", 20.0, {"note": "kept"})
    names = {"config.json", "model.safetensors", "README.md"}
    if tokenizer.kind == "fast":
        names |= {"tokenizer.json", "processor_config.json"}
    assert {p.name for p in (tmp_path / "t").iterdir()} == names
    again = back.save_pretrained(tmp_path / "again")
    for name in names - {"README.md"}:
        assert (again / name).read_bytes() == (tmp_path / "t" / name).read_bytes()


def test_a_pipeline_that_normalizes_first(tokenizer: ActionTokenizer, tmp_path: Path) -> None:
    inside = load_tokenizer(tokenizer.save_pretrained(tmp_path / "t"), normalized_input=True)
    chunks = walks()[:9]
    ids = inside(tokenizer.normalizer.normalize(chunks))
    assert ids == tokenizer(chunks)
    given = tokenizer.normalizer.unnormalize(inside.decode(ids))
    np.testing.assert_array_equal(given, tokenizer.decode(ids))


@pytest.mark.parametrize("kind", TOTAL)
def test_any_ids_decode_to_finite_actions(kind: str) -> None:
    """100,000 random sequences."""
    tokenizer = make(kind)
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        ids = torch.randint(
            tokenizer.vocab_size, (10_000, tokenizer.max_tokens), generator=generator
        )
        assert torch.isfinite(tokenizer.decode(ids)).all()
    assert tokenizer.is_total


@pytest.mark.parametrize("kind", WITH_PREFIXES)
def test_every_prefix_decodes(kind: str) -> None:
    tokenizer = make(kind)
    ids = torch.randint(tokenizer.vocab_size, (50, tokenizer.max_tokens))
    seen = []
    for budget in range(1, tokenizer.max_tokens + 1):
        decoded = tokenizer.decode(ids, budget=budget)
        torch.testing.assert_close(decoded, tokenizer.decode(ids[:, :budget]))
        assert torch.isfinite(decoded).all()
        seen.append(decoded)
    for earlier, later in pairwise(seen):
        assert (earlier - later).abs().max() > 1e-6, "each token matters"
    ragged = [row[: 1 + i % tokenizer.max_tokens] for i, row in enumerate(ids.tolist())]
    apart = np.concatenate([tokenizer.decode([row]) for row in ragged])
    assert_alike(tokenizer, tokenizer.decode(ragged), apart)
    assert tokenizer.is_ordered


@pytest.mark.parametrize("kind", ["bin", "quest", "acodec"])
def test_kinds_without_prefixes_say_so(kind: str) -> None:
    tokenizer = make(kind)
    ids = tokenizer(walks()[:1])
    message = (
        rf"{kind} decodes only all of its tokens: budget 2 is none of \[{tokenizer.max_tokens}\]"
    )
    with pytest.raises(ValueError, match=message):
        tokenizer.decode(ids, budget=2)
    with pytest.raises(ValueError, match=message):
        tokenizer.decode([ids[0][:2]])


def test_wrong_ids_budgets_and_lengths(tokenizer: ActionTokenizer) -> None:
    ids = tokenizer(walks()[:2])
    for wrong in (-1, tokenizer.vocab_size):
        broken = [list(ids[0]), list(ids[1])]
        broken[1][1] = wrong
        message = rf"id {wrong} at slot 1 of sequence 1 is outside the vocabulary 0 \.\. "
        with pytest.raises(ValueError, match=message):
            tokenizer.decode(broken)
    for budget in (0, tokenizer.max_tokens + 1):
        with pytest.raises(ValueError, match=rf"budget {budget} is outside 1 \.\. "):
            tokenizer.decode(ids, budget=budget)
    if tokenizer.is_fixed_length:
        with pytest.raises(ValueError, match=f"has {tokenizer.max_tokens + 1} tokens"):
            tokenizer.decode([[*ids[0], 0]])


def test_wrong_actions(tokenizer: ActionTokenizer) -> None:
    with pytest.raises(ValueError, match=r"actions are \(2, 8, 4\), expected \(batch, 8, 3\)"):
        tokenizer.encode(np.zeros((2, 8, 4)))
    with pytest.raises(ValueError, match="actions are not finite"):
        tokenizer.encode(np.full((2, 8, 3), np.nan))


@pytest.mark.parametrize("kind", [k for k in SETTINGS if isinstance(make(k).codec, LearnedCodec)])
def test_learned_kinds_have_a_gradient_everywhere(kind: str) -> None:
    from oatkit.nn.sample_random import SampleRandom, sample_keys

    tokenizer = make(kind)
    chunks = torch.from_numpy(tokenizer.normalizer.normalize(walks()[:64]))
    random = SampleRandom(sample_keys(0, 0, torch.arange(64)))
    loss = tokenizer.codec.loss(chunks, random).total
    names, parameters = zip(*tokenizer.codec.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    assert [n for n, g in zip(names, gradients, strict=True) if g.abs().max() == 0] == []


def test_broken_artifacts(tmp_path: Path) -> None:
    path = make("bin").save_pretrained(tmp_path / "t")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"version": 99}))
    with pytest.raises(ArtifactError, match="holds oatkit/tokenizer in version 99, this"):
        load_tokenizer(path)
    (path / "config.json").write_text("{")
    with pytest.raises(ArtifactError, match="is no readable tokenizer artifact"):
        load_tokenizer(path)
    path = make("klt").save_pretrained(tmp_path / "k")
    config = json.loads((path / "config.json").read_text())
    config["codec"]["num_tokens"] = 3
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match=r"model.safetensors is of another config"):
        load_tokenizer(path)
    with pytest.raises(ArtifactError, match="nowhere/at-all is no folder here and could not be"):
        load_tokenizer("nowhere/at-all")


def test_unknown_kinds_and_settings() -> None:
    with pytest.raises(ValueError, match=r"unknown tokenizer kind 'oat_pow2'; .* first: oat-pow2"):
        make_config("oat_pow2", horizon=8, action_dim=2)
    with pytest.raises(ValueError, match=r"unknown setting of bin 'bins'; .* first: num_bins"):
        make_config("bin", horizon=8, action_dim=2, bins=3)


def test_fast_strict_and_relaxed() -> None:
    from dataclasses import replace

    tokenizer = make("fast")
    strict = tokenizer.codec
    relaxed = type(strict)(replace(strict.config, decoding="relaxed"))
    relaxed.use(strict.bpe)
    loose = ActionTokenizer(relaxed, tokenizer.normalizer, tokenizer.data)
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
    from oatkit.tokenizers.fast import read_published

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


def test_fast_counts_what_it_clips() -> None:
    tokenizer = make("fast")
    before = tokenizer.codec.num_clipped
    tokenizer.decode(tokenizer(1000 * walks()[:3]))
    assert tokenizer.codec.num_clipped > before


def test_tokens_of_a_prefix_are_the_first_tokens() -> None:
    tokens = make("oat").encode(walks()[:2])
    assert isinstance(tokens, Tokens)
    torch.testing.assert_close(tokens.prefix(2).ids, tokens.ids[:, :2])
