"""Tokens are decoded on the robot, or one sentence says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oatkit_client import (
    LocalDecoder,
)

from oatkit.cli import main
from oatkit.data import Dataset
from tests.policies import tiny


@pytest.mark.parametrize(
    ("tokens", "budget", "problem"),
    [
        ([20], None, r"id 20 is outside the vocabulary 0 \.\. 19"),
        ([-1], None, "id -1 is outside the vocabulary"),
        ([0] * 9, None, "a sequence has 9 tokens, this decoder has 8"),
        ([0], 9, r"budget 9 is outside 1 \.\. 8"),
        ([0.5], None, "expected whole numbers"),
    ],
)
def test_tokens_that_do_not_decode(
    exported: tuple[Path, Path], tokens: Any, budget: int | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        LocalDecoder(exported[1]).decode(tokens, budget)


def test_kinds_without_prefixes_say_so(dataset: Dataset, tmp_path: Path) -> None:
    tiny.make_tokenizer("bin", dataset).save_pretrained(tmp_path / "bin")
    assert main(["export", str(tmp_path / "bin"), "--out", str(tmp_path / "onnx")]) == 0
    with pytest.raises(ValueError, match="bin decodes only all of its 24 tokens, got 3"):
        LocalDecoder(tmp_path / "onnx").decode([1, 2, 3])
