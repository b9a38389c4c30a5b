"""What the benchmarks of vision-language policies train on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from benchmarks import vlm_training
from benchmarks.vlm_training import TINY, Options, decoded, make_tokenizer, open_policy
from oatkit.errors import ArtifactError
from oatkit.policies import Policy
from oatkit.tokenizers import load_tokenizer


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setenv("OATKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "demonstrations").mkdir()
    rng = np.random.default_rng(0)
    for index in range(10):
        actions = rng.uniform(-1, 1, (40, 2))
        np.savez(tmp_path / f"demonstrations/{index}.npz", action=actions, task="push", fps=10)
    return Options(out=tmp_path, tiny=True, **{**TINY, "tokenizer_steps": 2})


def test_fast_mends_sequences_that_are_no_chunk(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper does so in simulation; also where a tokenizer of before is strict."""
    tokenizer = load_tokenizer(make_tokenizer(options, "fast"))
    assert tokenizer.codec.config.decoding == "relaxed"
    tokenizer.choose_decoding("strict")
    policy = Policy.__new__(Policy)
    policy.tokenizer = tokenizer
    monkeypatch.setattr(vlm_training, "load_policy", lambda folder: policy)
    assert open_policy(Path()).tokenizer.codec.config.decoding == "relaxed"
    assert (decoded("fast"), decoded("oat")) == (", relaxed", "")


def test_tokenizers_of_other_steps_are_refused(options: Options) -> None:
    make_tokenizer(options, "oat")
    with pytest.raises(ArtifactError, match="was trained for 2 steps and 3 are asked for"):
        make_tokenizer(replace(options, tokenizer_steps=3), "oat")
