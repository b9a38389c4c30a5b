"""Digests: short names of contents, which change when the contents do.

A digest is made of parts, one after the other, in an order that every caller keeps: settings as
JSON, tensors by name, files by name. The digests of tokenizers and policies are stored in
artifacts, checkpoints, records and cache keys, so what they are made of must not change;
`tests/storage/test_digest.py` holds them to those of earlier versions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

NUM_BYTES = 16


def digest(*parts: bytes) -> str:
    """The digest of some parts, as 32 hexadecimal digits."""
    return digest_bytes(*parts).hex()


def digest_bytes(*parts: bytes, key: bytes = b"") -> bytes:
    """The digest of some parts as 16 bytes; another `key` gives an unrelated one."""
    state = hashlib.blake2b(digest_size=NUM_BYTES, key=key)
    for part in parts:
        state.update(part)
    return state.digest()


def settings_part(settings: Mapping[str, Any]) -> bytes:
    """JSON values by name; their order does not matter."""
    return json.dumps(settings, sort_keys=True).encode()


def tensor_parts(tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
    """Names and contents of tensors of any type, in the order of the mapping."""
    import torch

    for name, tensor in tensors.items():
        # numpy has no bfloat16, so the bits are read as bytes
        bits = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        yield name.encode()
        yield bits.numpy().tobytes()


def file_parts(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Names and contents of files, sorted by name."""
    for name in sorted(files):
        yield name.encode()
        yield files[name]
