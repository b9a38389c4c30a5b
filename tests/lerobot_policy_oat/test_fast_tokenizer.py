"""`fast` artifacts in LeRobot's own pi0_fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
import torch

import oatkit
from oatkit.errors import ArtifactError, DecodeError
from oatkit.tokenizers.fast import read_published
from tests.policies.tiny import ACTION_DIM, HORIZON

pytest.importorskip("transformers", reason="pi0_fast needs transformers")


def load_as_pi0_fast_does(folder: str) -> Any:
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(folder, trust_remote_code=True)


def decode_as_pi0_fast_does(tok: Any, ids: list[int]) -> np.ndarray:
    """By hand, from three attributes."""
    text = tok.bpe_tokenizer.decode(torch.tensor(ids))
    coefficients = np.array([ord(character) for character in text]) + tok.min_token
    by_step = coefficients.reshape(HORIZON, ACTION_DIM)
    return scipy.fft.idct(by_step / tok.scale, axis=0, norm="ortho")


def test_pi0_fast_loads_a_fast_artifact_as_it_is(folders: dict[str, str], chunks: Any) -> None:
    ours = oatkit.load_tokenizer(folders["fast"])
    tok = load_as_pi0_fast_does(folders["fast"])
    normalized = ours.normalizer.normalize(chunks)
    rows = tok(torch.from_numpy(normalized).float())
    assert rows == ours(chunks)  # normalized once, not twice
    for ids, chunk in zip(rows, ours.decode(rows), strict=True):
        by_hand = decode_as_pi0_fast_does(tok, ids)
        np.testing.assert_allclose(ours.normalizer.unnormalize(by_hand), chunk, rtol=1e-4)
        np.testing.assert_allclose(tok.decode([ids])[0], by_hand, atol=1e-5)


def test_a_fast_processor_saves_itself(
    folders: dict[str, str], chunks: Any, tmp_path: Path
) -> None:
    tok = load_as_pi0_fast_does(folders["fast"])
    tok.save_pretrained(tmp_path)
    assert load_as_pi0_fast_does(str(tmp_path))(chunks) == tok(chunks)
    published = json.loads((tmp_path / "processor_config.json").read_text())
    assert published["scale"] == tok.scale
    assert published["min_token"] == tok.min_token
    codec = read_published(tmp_path, horizon=HORIZON, action_dim=ACTION_DIM)
    assert codec.vocab_size == tok.vocab_size


def test_a_fast_processor_refuses_what_it_cannot_do(folders: dict[str, str], chunks: Any) -> None:
    tok = load_as_pi0_fast_does(folders["fast"])
    with pytest.raises(ValueError, match=r"chunks of 50 x 3 were asked for, .* is for 8 x 3"):
        tok.decode(tok(chunks), time_horizon=50, action_dim=ACTION_DIM)
    with pytest.raises(DecodeError, match="expected 24 coefficients"):
        tok.decode([tok(chunks)[0][:2]])
    with pytest.raises(ArtifactError, match=r"not klt: use --policy\.type=pi0_fast_oat"):
        type(tok).from_pretrained(folders["klt"])
