"""Records about tokenizers survive JSON, with all that is nested in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oatkit.storage.records import read_record, record_from_json, record_to_json
from oatkit.types import LabChunk, LabTokens, TokenizerComparison

COMPARISON = Path(__file__).parent.parent / "storage/records_v2/tokenizer-comparison.json"


def test_a_comparison_survives_json() -> None:
    record = read_record(COMPARISON, TokenizerComparison)
    values = json.loads(json.dumps(record_to_json(record)))
    back = record_from_json(TokenizerComparison, values)
    assert back == record
    assert isinstance(back.samples[0][0], tuple)
    assert {kind.measurement.kind for kind in back.kinds} == {"oat", "bin", "klt"}


def test_the_identity_of_allocation_holds_in_records() -> None:
    record = read_record(COMPARISON, TokenizerComparison)
    allocations = [kind.allocation for kind in record.kinds if kind.allocation]
    assert len(allocations) == 2
    for a in allocations:
        spent = sum(w * gain for w, gain in zip(a.survival, a.gains, strict=True))
        assert a.expanded_error == pytest.approx(a.errors[0] - spent)
        assert a.expected_error == pytest.approx(a.expanded_error, rel=1e-3)
        assert a.expected_error == pytest.approx(
            sum(a.errors[budget] for budget in a.budgets) / len(a.budgets), rel=1e-3
        )


def test_ids_that_do_not_decode_have_an_error_instead_of_actions() -> None:
    tokens = LabTokens("fast", "fast", (1, 2), (1, 3), 2, 16.0, None, None, "2 tokens gave nothing")
    record = LabChunk("data", 3, 7, ("x",), ((0.5,), (0.25,)), (tokens,))
    back = record_from_json(LabChunk, json.loads(json.dumps(record_to_json(record))))
    assert back == record
    assert (back.tokenizers[0].actions, back.actions) == (None, ((0.5,), (0.25,)))
