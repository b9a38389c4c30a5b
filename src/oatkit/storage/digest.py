"""A fingerprint of what decides a tokenizer's tokens."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any


def artifact_digest(tokenizer: Any) -> str:
    """Changes when a tokenizer would give other tokens."""
    with tempfile.TemporaryDirectory() as folder:
        return folder_digest(tokenizer.save_pretrained(folder))


def folder_digest(path: Path) -> str:
    """The same of an artifact as it was written."""
    digest = hashlib.blake2b(digest_size=16)
    config = json.loads((path / "config.json").read_text())
    decisive = {name: config[name] for name in ("kind", "codec", "normalization")}
    digest.update(json.dumps(decisive, sort_keys=True).encode())
    for file in sorted(path.iterdir()):
        if file.name not in ("config.json", "README.md", "processor_config.json"):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()
