"""Digests change with every part, and never from one version to the next."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from oatkit.storage.digest import (
    digest,
    digest_bytes,
    file_parts,
    settings_part,
    tensor_parts,
)
from oatkit.tokenizers import load_tokenizer

OLD = json.loads((Path(__file__).parent / "digests_v1.json").read_text())
TESTS = Path(__file__).parent.parent


def test_a_digest_is_blake2b_of_its_parts() -> None:
    wanted = hashlib.blake2b(b"abc", digest_size=16)
    assert digest(b"a", b"bc") == wanted.hexdigest()
    assert digest_bytes(b"abc") == wanted.digest()
    assert digest_bytes(b"abc", key=b"1") != digest_bytes(b"abc", key=b"2") != wanted.digest()


def test_the_order_of_settings_and_files_does_not_matter() -> None:
    assert settings_part({"a": 1, "b": {"c": 2, "d": 3}}) == settings_part(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    assert list(file_parts({"b": b"2", "a": b"1"})) == [b"a", b"1", b"b", b"2"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_of_every_type_have_bytes(dtype: torch.dtype) -> None:
    tensor = torch.arange(6).view(2, 3).to(dtype)
    whole = b"".join(tensor_parts({"w": tensor, "scalar": tensor[0, 1]}))
    assert len(whole) == len(b"wscalar") + 7 * tensor.element_size()
    parts = list(tensor_parts({"w": tensor.T}))
    assert parts == list(tensor_parts({"w": tensor.T.contiguous()}))
    assert parts != list(tensor_parts({"w": 1 - tensor.T.long()}))


@pytest.mark.parametrize("name", OLD["tokenizers"])
def test_tokenizers_keep_the_digests_that_version_1_gave_them(name: str) -> None:
    tokenizer = load_tokenizer(TESTS / "tokenizers/golden" / name)
    assert tokenizer.digest == OLD["tokenizers"][name]
