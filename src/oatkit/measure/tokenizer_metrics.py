"""How good a tokenizer is, measured on chunks that it was not trained on."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import nn

from oatkit.data import Dataset
from oatkit.measure.decoded_budget import DecodedBudget
from oatkit.measure.encoded_chunks import EncodedChunks, decode_prefix, encode_chunks
from oatkit.measure.gaussian import eigenvalues
from oatkit.measure.metric_table import measure_metrics
from oatkit.measure.robustness import measure_robustness
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import BudgetMeasurement, SlotMeasurement, TokenizerMeasurement, Tokens

BLOCK = 1024
"""Chunks that are encoded or decoded at once when speed is measured."""
SPEED_SECONDS = 0.5
"""Time for which encoding, and decoding, is repeated."""


def measure_tokenizer(
    tokenizer: ActionTokenizer,
    dataset: Dataset,
    *,
    path: str = "",
    split: str = "all",
    seed: int = 0,
    encoded: EncodedChunks | None = None,
) -> TokenizerMeasurement:
    """Measure every budget that decodes, the use of the vocabulary, robustness and speed.

    Args:
        tokenizer: Trained or fitted tokenizer.
        dataset: Held-out episodes.
        path: Path of the artifact, for the record.
        split: Name of the part of the dataset, for the record.
        seed: Seed of the random token sequences that are decoded.
        encoded: Chunks of the dataset, for callers that have encoded them already.
    """
    encoded = encoded or encode_chunks(tokenizer, dataset)
    count = len(encoded.tokens)
    slot_ids = _ids_of_slots(encoded.tokens)
    mean_bits = slot_entropies(encoded.tokens)
    size = min(count, BLOCK)
    block = encoded.tokens.rows(slice(size))
    assert isinstance(tokenizer.codec, nn.Module)
    return TokenizerMeasurement(
        path=path,
        kind=tokenizer.kind,
        data=str(dataset.path),
        split=split,
        num_chunks=count,
        horizon=tokenizer.horizon,
        action_dim=tokenizer.action_dim,
        vocab_size=tokenizer.vocab_size,
        max_tokens=tokenizer.max_tokens,
        num_parameters=sum(p.numel() for p in tokenizer.codec.parameters()),
        budgets=tuple(_measure_budgets(tokenizer, encoded, mean_bits)),
        slots=tuple(
            SlotMeasurement(len(np.unique(ids)) / tokenizer.vocab_size, 2.0 ** _entropy_bits(ids))
            for ids in slot_ids
        ),
        robustness=measure_robustness(tokenizer, encoded.tokens, seed),
        encode_chunks_per_s=_chunks_per_s(
            lambda: tokenizer.encode(encoded.actions[:size], block.state), size
        ),
        decode_chunks_per_s=_chunks_per_s(lambda: tokenizer.decode(block), size),
    )


def slot_entropies(tokens: Tokens) -> tuple[float, ...]:
    """Entropy in bits of the ids of each slot, times the share of sequences that reach it."""
    slot_ids = _ids_of_slots(tokens)
    return tuple(len(ids) / len(tokens) * _entropy_bits(ids) for ids in slot_ids)


def _measure_budgets(
    tokenizer: ActionTokenizer, encoded: EncodedChunks, entropy_bits_K: tuple[float, ...]
) -> list[BudgetMeasurement]:
    eigenvalues_D = eigenvalues(encoded.actions.numpy())
    measured = []
    for budget in _budgets(tokenizer):
        kept = encoded.tokens.prefix(budget)
        found = DecodedBudget(
            budget=budget,
            tokens=kept,
            wanted=encoded.actions,
            decoded=decode_prefix(tokenizer, kept),
            is_pad=encoded.is_pad,
            vocab_size=tokenizer.vocab_size,
            scale=tokenizer.raw_normalizer.scale,
            eigenvalues=eigenvalues_D,
            entropy_bits=entropy_bits_K,
        )
        measured.append(measure_metrics(found, is_trained=budget in tokenizer.budgets))
    return measured


def _budgets(tokenizer: ActionTokenizer) -> list[int]:
    """Every budget from 0 (no token) to all tokens, trained or not; only the full length for kinds
    without prefixes or with varying lengths."""
    if tokenizer.codec.has_prefixes and tokenizer.is_fixed_length:
        return list(range(tokenizer.max_tokens + 1))
    return [tokenizer.max_tokens]


def _ids_of_slots(tokens: Tokens) -> list[NDArray[np.int64]]:
    """The ids in each slot, taken from the sequences that are long enough to have it."""
    ids, lengths = tokens.ids.numpy(), tokens.lengths.numpy()
    return [ids[lengths > slot, slot] for slot in range(ids.shape[1])]


def _entropy_bits(ids: NDArray[np.int64]) -> float:
    counts = np.unique(ids, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _chunks_per_s(work: Callable[[], object], size: int) -> float:
    """Chunks a second, by the median time of repeated calls that handle `size` chunks each."""
    work()
    times: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < SPEED_SECONDS or len(times) < 3:
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return size / float(np.median(times))
