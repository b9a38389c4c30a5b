"""Artifacts that were written once and must encode and decode the same for ever.

    python -m tests.tokenizers.test_golden

writes those that are not there; an existing one is never touched. Where a kind is stored in another
way, its artifact of before gets another name and stays.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from oatkit.tokenizers import load_tokenizer
from tests.tokenizers.small_tokenizers import NAMES, make, walks

FOLDER = Path(__file__).parent / "golden"
NUM_CHUNKS = 6
NUDGE = 1e-4
"""Chunks are golden whose ids survive so large a change, relative to a dimension's range."""


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_golden_artifact(name: str) -> None:
    folder = FOLDER / name
    tokenizer = load_tokenizer(folder)
    golden = json.loads((folder / "golden.json").read_text())
    assert tokenizer(np.array(golden["actions"], np.float32)) == golden["ids"]
    scale = tokenizer.normalizer.scale
    decoded = tokenizer.decode(golden["ids"])
    np.testing.assert_allclose(decoded / scale, golden["decoded"] / scale, rtol=0, atol=1e-4)


def write_golden(name: str) -> None:
    folder = FOLDER / name.replace(", ", "-").replace(" ", "-")
    if folder.exists():
        return
    tokenizer = make(name)
    rng = np.random.default_rng(0)
    nudge = NUDGE * tokenizer.normalizer.scale * rng.choice([-1, 1], size=walks().shape)
    ids, nudged = tokenizer(walks()), tokenizer(walks() + nudge)
    steady = [i for i, (a, b) in enumerate(zip(ids, nudged, strict=True)) if a == b][:NUM_CHUNKS]
    assert len(steady) == NUM_CHUNKS
    tokenizer.save_pretrained(folder)
    (folder / "README.md").unlink()
    golden = {
        "actions": walks()[steady].tolist(),
        "ids": [ids[i] for i in steady],
        "decoded": tokenizer.decode([ids[i] for i in steady]).tolist(),
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in NAMES:
        write_golden(each)
