"""One suite for every kind in the table: an `ActionTokenizer` of any kind behaves like this."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from oatkit.tokenizers import KINDS, ActionTokenizer, load_tokenizer
from oatkit.tokenizers.codec import FittedCodec, HasFiles, LearnedCodec
from tests.tokenizers.small_tokenizers import NAMES, kind_of, loss_of, make, walks

LEARNED = [name for name in NAMES if KINDS[kind_of(name)].is_learned]
TOTAL = [name for name in NAMES if make(name).is_total]
WITH_PREFIXES = [name for name in NAMES if make(name).codec.has_prefixes]
WITHOUT_PREFIXES = [
    name for name in NAMES if make(name).is_fixed_length and name not in WITH_PREFIXES
]


@pytest.fixture(params=NAMES)
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
    assert np.isfinite(decoded).all()


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
    assert isinstance(tokenizer.decode(tokenizer.encode(chunks)), np.ndarray)
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
    if isinstance(tokenizer.codec, HasFiles):
        names |= {*tokenizer.codec.learned_files(), *tokenizer.codec.other_files()}
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


@pytest.mark.parametrize("name", TOTAL)
def test_any_ids_decode_to_finite_actions(name: str) -> None:
    """100,000 random sequences."""
    tokenizer = make(name)
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        ids = torch.randint(
            tokenizer.vocab_size, (10_000, tokenizer.max_tokens), generator=generator
        )
        assert torch.isfinite(tokenizer.decode(ids)).all()


@pytest.mark.parametrize("name", WITH_PREFIXES)
def test_every_prefix_decodes(name: str) -> None:
    tokenizer = make(name)
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


@pytest.mark.parametrize("name", WITHOUT_PREFIXES)
def test_kinds_without_prefixes_say_so(name: str) -> None:
    tokenizer = make(name)
    ids = tokenizer(walks()[:1])
    message = (
        rf"{tokenizer.kind} decodes only all of its tokens: budget 2 is none of "
        rf"\[{tokenizer.max_tokens}\]"
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
    actions = np.zeros((2, 8, 3))
    actions[1, 5, 2] = np.nan
    with pytest.raises(ValueError, match="not finite, first at chunk 1, step 5, dimension 2"):
        tokenizer.encode(actions)


@pytest.mark.parametrize("name", LEARNED)
def test_learned_kinds_have_a_gradient_everywhere(name: str) -> None:
    tokenizer = make(name)
    loss = loss_of(tokenizer.codec, torch.from_numpy(tokenizer.normalizer.normalize(walks()[:64])))
    names, parameters = zip(*tokenizer.codec.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    assert [n for n, g in zip(names, gradients, strict=True) if g.abs().max() == 0] == []


def test_the_table_says_what_the_codec_is(tokenizer: ActionTokenizer) -> None:
    """Learned kinds have a loss; what is neither learned nor fitted learns nothing."""
    is_learned = KINDS[tokenizer.kind].is_learned
    assert isinstance(tokenizer.codec, LearnedCodec) == is_learned
    if not is_learned and not isinstance(tokenizer.codec, FittedCodec):
        assert not tokenizer.codec.state_dict()


def test_a_digest_changes_with_what_is_learned(tokenizer: ActionTokenizer, tmp_path: Path) -> None:
    back = load_tokenizer(tokenizer.save_pretrained(tmp_path))
    back.extras["note"] = "says nothing about tokens"
    assert back.digest == tokenizer.digest
    state = back.codec.state_dict()
    if state:
        next(iter(state.values())).view(-1)[0] += 1
        assert back.digest != tokenizer.digest


def test_what_is_computed_from_data_is_closer_than_the_mean(tokenizer: ActionTokenizer) -> None:
    """Untrained codecs are left out: nothing can be expected of them."""
    if KINDS[tokenizer.kind].is_learned:
        return
    normalize = tokenizer.normalizer.normalize
    error = normalize(tokenizer.decode(tokenizer(walks()))) - normalize(walks())
    spread = normalize(walks()) - normalize(walks()).mean(axis=0)
    assert np.square(error).mean() < 0.5 * np.square(spread).mean()
