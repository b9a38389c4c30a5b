"""A decoder in ONNX Runtime gives what torch gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import Codec
from oatkit.tokenizers.codec_onnx import decoder, decoder_model
from oatkit.types import Tokens
from tests.tokenizers.small_tokenizers import NAMES, make


def has_decoder(name: str) -> bool:
    """Whether the codec's class has a row of its own in `codec_onnx.py`, and is not refused."""
    found = decoder.dispatch(type(make(name).codec))
    return name != "fast" and found is not decoder.dispatch(object)


@pytest.mark.parametrize("name", [name for name in NAMES if has_decoder(name)])
def test_the_same_actions_for_any_batch(name: str) -> None:
    tokenizer = make(name)
    model = decoder_model(tokenizer)
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    assert names == (["tokens", "lengths"] if tokenizer.codec.has_prefixes else ["tokens"])
    for batch_size in (1, 2, 7):
        ids_BK = torch.randint(tokenizer.vocab_size, (batch_size, tokenizer.max_tokens))
        lengths_B = torch.full((batch_size,), tokenizer.max_tokens)
        if tokenizer.codec.has_prefixes:
            lengths_B = torch.randint(1, tokenizer.max_tokens + 1, (batch_size,))
        wanted = tokenizer.decode(Tokens(ids_BK, lengths_B)).numpy()
        inputs = {"tokens": ids_BK.numpy(), "lengths": lengths_B.numpy()}
        (found,) = session.run(None, {name: inputs[name] for name in names})
        assert np.ptp(wanted) > 0
        np.testing.assert_allclose(
            found / tokenizer.normalizer.scale, wanted / tokenizer.normalizer.scale, atol=1e-5
        )


def test_what_never_changed_comes_back_exact() -> None:
    made = make("bin")
    is_held = np.arange(made.action_dim) == 1
    normalizer = replace(made.normalizer, is_held=is_held)
    tokenizer = ActionTokenizer(made.codec, normalizer, made.data)
    ids_BK = torch.randint(tokenizer.vocab_size, (3, tokenizer.max_tokens))
    wanted = tokenizer.decode(Tokens(ids_BK, torch.full((3,), tokenizer.max_tokens))).numpy()
    session = onnxruntime.InferenceSession(decoder_model(tokenizer))
    (found,) = session.run(None, {"tokens": ids_BK.numpy()})
    constant = np.float32(normalizer.offset[1])
    assert (wanted[..., 1] == constant).all()
    assert (found[..., 1] == constant).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_fast_is_refused() -> None:
    with pytest.raises(ValueError, match="fast has no decoder in ONNX: its tokens are byte pairs"):
        decoder_model(make("fast"))


def test_a_kind_without_decoder_is_refused_by_name() -> None:
    class Unknown:
        config = make("bin").codec.config
        has_prefixes = False
        max_tokens = 3

    codec: Codec = Unknown()  # type: ignore[assignment]
    tokenizer = ActionTokenizer(codec, make("bin").normalizer, make("bin").data)
    with pytest.raises(ValueError, match="bin has no decoder in ONNX: export another kind"):
        decoder_model(tokenizer)
