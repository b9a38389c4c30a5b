"""A decoder in ONNX Runtime gives what torch gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.tokenizers.acodec import Acodec
from oatkit.tokenizers.codec_onnx import decoder_model
from oatkit.types import Tokens
from tests.policies import tiny

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("oat", {}),
    ("oat-pow2", {}),
    ("oat-pow2", {"refine": 8}),
    ("klt", {}),
    ("klt", {"cells": "scalar"}),
    ("quest", {}),
    ("acodec", {}),
    ("bin", {}),
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(str(tiny.write_dataset(Path(tmp_path_factory.mktemp("d")) / "data")))


@pytest.mark.parametrize(("kind", "settings"), KINDS, ids=lambda value: str(value))
def test_the_same_actions_for_any_batch(
    kind: str, settings: dict[str, Any], dataset: Dataset
) -> None:
    tokenizer = tiny.make_tokenizer(kind, dataset, **settings)
    if isinstance(tokenizer.codec, Acodec):  # an untrained codebook is zero
        tokenizer.codec.quantizer.codebook.normal_()
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


def test_fast_is_refused(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="fast has no decoder in ONNX: its tokens are byte pairs"):
        decoder_model(tiny.make_tokenizer("fast", dataset))


def test_a_fingerprint_is_of_what_decodes(dataset: Dataset, tmp_path: Path) -> None:
    tokenizer = tiny.make_tokenizer("oat-pow2", dataset)
    tokenizer.save_pretrained(tmp_path)
    again = oatkit.load_tokenizer(tmp_path)
    again.extras["note"] = "not of what decodes"
    assert again.digest == tokenizer.digest
    with torch.no_grad():
        again.codec.head.bias[0] += 1
    assert again.digest != tokenizer.digest
