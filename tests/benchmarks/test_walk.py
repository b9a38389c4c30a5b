"""Work takes short ways through the files, and the docs show them as they are."""

from __future__ import annotations

import re

import pytest

from benchmarks.walk import WALKS, walk
from tests.extending.harness import ROOT

MAX_STEPS = 35


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_is_short_and_the_page_shows_it(name: str) -> None:
    pytest.importorskip("onnxruntime", reason="the page shows generation by ONNX Runtime")
    found = walk(name)
    assert len(found.steps) <= MAX_STEPS
    assert found.back_and_forth == []
    page = (ROOT / "docs/architecture.md").read_text()
    assert str(found) in re.findall(r"```text\n(.*?)\n```", page, re.DOTALL)
