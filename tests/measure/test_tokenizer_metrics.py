"""Measurements of tokenizers whose errors are known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from oatkit.measure.encoded_chunks import encode_chunks
from oatkit.measure.tokenizer_metrics import measure_tokenizer, slot_entropies
from oatkit.types import TokenizerMeasurement, Tokens
from tests.measure.walks import make_tokenizer, walks


@pytest.fixture(autouse=True)
def _brief_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)


def measure(kind: str, folder: Path, **settings: object) -> TokenizerMeasurement:
    dataset = walks(folder)
    tokenizer = make_tokenizer(kind, dataset, **settings)
    return measure_tokenizer(tokenizer, dataset, path="p", split="all")


def test_an_ordered_kind(tmp_path: Path) -> None:
    found = measure("klt", tmp_path, num_tokens=6, levels=(5, 4))
    assert [b.budget for b in found.budgets] == list(range(7))
    assert [b.budget for b in found.budgets if b.is_trained] == [1, 2, 4, 6]
    errors = [b.mse for b in found.budgets]
    assert errors == sorted(errors, reverse=True)
    last = found.budgets[-1]
    assert last.bits == pytest.approx(6 * math.log2(20))
    assert 0 < last.entropy_bits <= last.bits
    assert last.mse != last.mse_without_padding
    assert all(w >= m for w, m in zip(last.worst, last.mae, strict=True))
    assert len(found.slots) == 6
    assert all(0 < s.usage <= 1 and 1 <= s.perplexity <= 20 for s in found.slots)
    assert (found.robustness.random_finite, found.robustness.random_undecodable) == (1, 0)
    assert found.robustness.corrupted_mse > 0
    assert found.encode_chunks_per_s > 0


def test_the_numbers_of_bin_are_those_of_its_bins(tmp_path: Path) -> None:
    found = measure("bin", tmp_path)
    (only,) = found.budgets
    assert (only.tokens, only.bits) == (24, 192)
    assert only.mse_normalized == pytest.approx((2 / 256) ** 2 / 12, rel=0.1)
    assert only.jerk_ratio == pytest.approx(1, abs=0.01)


def test_fast_counts_what_does_not_decode(tmp_path: Path) -> None:
    found = measure("fast", tmp_path, vocab_size=300)
    (only,) = found.budgets
    assert only.tokens < found.max_tokens
    assert 0 < only.entropy_bits <= only.bits, "slots that few sequences reach count little"
    assert found.robustness.random_undecodable > 0.5
    assert found.robustness.corrupted_undecodable > 0.1
    finite, broken = found.robustness.random_finite, found.robustness.random_undecodable
    assert finite + broken == pytest.approx(1)


def test_chunks_that_are_encoded_already_give_the_same_numbers(tmp_path: Path) -> None:
    dataset = walks(tmp_path)
    tokenizer = make_tokenizer("klt", dataset, num_tokens=4, levels=(5, 4))
    encoded = encode_chunks(tokenizer, dataset)
    found, again = (
        measure_tokenizer(tokenizer, dataset, encoded=given) for given in (encoded, None)
    )
    assert found.budgets == again.budgets
    assert found.slots == again.slots
    assert found.robustness == again.robustness


def test_the_entropy_of_a_slot_counts_the_chunks_that_reach_it() -> None:
    ids = torch.tensor([[0, 5], [1, 5], [2, 6], [3, 0]])
    tokens = Tokens(ids, torch.tensor([2, 2, 2, 1]))
    share_of_5 = 2 / 3
    second = -(share_of_5 * math.log2(share_of_5) + math.log2(1 / 3) / 3)
    assert slot_entropies(tokens) == pytest.approx((2.0, 3 / 4 * second))
