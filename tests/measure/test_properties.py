"""The paper's properties, decided by measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.measure.encoded_chunks import encode_chunks
from oatkit.measure.properties import measure_properties
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.types import Properties
from tests.measure.walks import make_tokenizer, walks


def properties(kind: str, folder: Path, **settings: object) -> Properties:
    dataset = walks(folder)
    tokenizer = make_tokenizer(kind, dataset, **settings)
    encoded = encode_chunks(tokenizer, dataset)
    measured = measure_tokenizer(tokenizer, dataset, encoded=encoded)
    return measure_properties(tokenizer, encoded, measured)


@pytest.fixture(autouse=True)
def _brief_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)


def test_klt_is_compact_total_and_ordered(tmp_path: Path) -> None:
    found = properties("klt", tmp_path, num_tokens=4, levels=(5, 4))
    assert (found.compact.holds, found.total.holds, found.ordered.holds) == (True, True, True)
    assert found.compact.evidence == "4 tokens for 24 numbers (17%)"
    assert found.ordered.evidence == "the error falls at 2 of 2 steps (1, 2, 4 tokens)"
    assert found.block_compatible.holds is False


def test_bin_is_neither_compact_nor_ordered(tmp_path: Path) -> None:
    found = properties("bin", tmp_path)
    assert (found.compact.holds, found.total.holds, found.ordered.holds) == (False, True, False)
    assert found.ordered.evidence == "no prefix decodes, only all 24 tokens do"


def test_prefixes_of_fast_are_decoded_with_missing_coefficients_padded(tmp_path: Path) -> None:
    found = properties("fast", tmp_path, vocab_size=300)
    assert found.total.holds is False
    assert found.ordered.evidence.startswith("the error falls at ")
    assert "1, 2, 4" in found.ordered.evidence


def test_tokens_of_one_call_have_no_order(tmp_path: Path) -> None:
    found = properties("acodec", tmp_path, num_tokens=4, width=16, num_layers=1, num_heads=2)
    assert found.ordered.holds is None
    assert found.block_compatible.holds is True
    assert found.block_compatible.evidence == "tokens a call: 1 x 4; peers do not see each other"
