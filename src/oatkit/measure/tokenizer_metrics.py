"""How good a tokenizer is, measured on chunks it was not fitted on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oatkit.data import Dataset
from oatkit.measure.gaussian import eigenvalues, gaussian_distortion
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import decode_in_parts
from oatkit.types import (
    BudgetMeasurement,
    Robustness,
    SlotMeasurement,
    TokenizerMeasurement,
    Tokens,
)

MAX_CHUNKS = 8192
"""Of a larger split so many are measured, evenly spread."""
PROBES = 1000
"""Random and corrupted sequences that are decoded."""
BLOCK = 1024
SPEED_SECONDS = 0.5


def measure_tokenizer(
    tokenizer: ActionTokenizer,
    dataset: Dataset,
    *,
    path: str = "",
    split: str = "all",
    seed: int = 0,
) -> TokenizerMeasurement:
    """Measure every budget that decodes, the use of the vocabulary, robustness and speed.

    Args:
        tokenizer: Trained or fitted.
        dataset: Held-out episodes.
        path: Of the artifact, for the record.
        split: What the episodes are, for the record.
        seed: Of the random probes.
    """
    actions_BTA, is_pad_BT = chunks_to_measure(dataset, tokenizer.horizon)
    count = len(actions_BTA)
    wanted_BTA = torch.from_numpy(actions_BTA)
    tokens = tokenizer.encode(wanted_BTA)
    spectrum = eigenvalues(actions_BTA)
    slot_ids = _ids_of_slots(tokens)
    slot_entropy_bits = [_entropy_bits(ids) for ids in slot_ids]
    # a slot that few sequences reach adds as few bits to a chunk
    mean_bits = [
        len(ids) / count * bits for ids, bits in zip(slot_ids, slot_entropy_bits, strict=True)
    ]
    budgets = [
        _measure_budget(tokenizer, tokens.prefix(b), b, wanted_BTA, is_pad_BT, spectrum, mean_bits)
        for b in _budgets(tokenizer)
    ]
    size = min(count, BLOCK)
    block = Tokens(tokens.ids[:size], tokens.lengths[:size])
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
        budgets=tuple(budgets),
        slots=tuple(
            SlotMeasurement(len(np.unique(ids)) / tokenizer.vocab_size, 2.0**bits)
            for ids, bits in zip(slot_ids, slot_entropy_bits, strict=True)
        ),
        robustness=_robustness(tokenizer, tokens, torch.Generator().manual_seed(seed)),
        encode_chunks_per_s=_chunks_per_s(lambda: tokenizer.encode(wanted_BTA[:size]), size),
        decode_chunks_per_s=_chunks_per_s(lambda: tokenizer.decode(block), size),
    )


def chunks_to_measure(
    dataset: Dataset, horizon: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Raw chunks (B, T, A), evenly spread over the dataset, and their padding (B, T)."""
    chunks = dataset.chunks(horizon)
    count = min(len(chunks), MAX_CHUNKS)
    return chunks.actions(np.linspace(0, len(chunks) - 1, count).astype(int))


def _budgets(tokenizer: ActionTokenizer) -> list[int]:
    """All budgets that decode: trained ones and those between."""
    if tokenizer.codec.has_prefixes and tokenizer.is_fixed_length:
        return list(range(tokenizer.max_tokens + 1))
    return [tokenizer.max_tokens]


@torch.inference_mode()
def decode_any(tokenizer: ActionTokenizer, tokens: Tokens) -> Tensor:
    """Raw chunks; goes to the codec itself, because budget 0 is none that users may ask for."""
    return tokenizer.normalizer.unnormalize(decode_in_parts(tokenizer.codec, tokens))


def _measure_budget(
    tokenizer: ActionTokenizer,
    tokens: Tokens,
    budget: int,
    wanted_BTA: Tensor,
    is_pad_BT: NDArray[np.bool_],
    spectrum: NDArray[np.float64],
    slot_bits: list[float],
) -> BudgetMeasurement:
    decoded_BTA = decode_any(tokenizer, tokens)
    error_BTA = (decoded_BTA - wanted_BTA).double().numpy()
    scaled = error_BTA / tokenizer.normalizer.scale
    mean_tokens = float(tokens.lengths.double().mean())
    bits = mean_tokens * math.log2(tokenizer.vocab_size)
    return BudgetMeasurement(
        budget=budget,
        is_trained=budget in tokenizer.budgets,
        tokens=mean_tokens,
        bits=bits,
        entropy_bits=sum(slot_bits[:budget]),
        mse=float(np.square(error_BTA).mean()),
        mse_without_padding=float(np.square(error_BTA[~is_pad_BT]).mean()),
        mse_normalized=float(np.square(scaled).mean()),
        gaussian_mse=gaussian_distortion(spectrum, bits),
        mae=tuple(np.abs(error_BTA).mean(axis=(0, 1)).tolist()),
        worst=tuple(np.abs(error_BTA).max(axis=(0, 1)).tolist()),
        jerk_ratio=_jerk(decoded_BTA, tokenizer) / max(_jerk(wanted_BTA, tokenizer), 1e-30),
    )


def _jerk(actions_BTA: Tensor, tokenizer: ActionTokenizer) -> float:
    """Mean squared third difference over time, all dimensions on one scale."""
    if actions_BTA.shape[1] < 4:
        return 0.0
    scaled = actions_BTA.double() / torch.from_numpy(tokenizer.normalizer.scale)
    return float(scaled.diff(n=3, dim=1).square().mean())


def _ids_of_slots(tokens: Tokens) -> list[NDArray[np.int64]]:
    """For each slot the ids of the sequences that reach it."""
    ids, lengths = tokens.ids.numpy(), tokens.lengths.numpy()
    return [ids[lengths > slot, slot] for slot in range(ids.shape[1])]


def _entropy_bits(ids: NDArray[np.int64]) -> float:
    counts = np.unique(ids, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _robustness(
    tokenizer: ActionTokenizer, tokens: Tokens, generator: torch.Generator
) -> Robustness:
    rows = torch.randint(len(tokens), (PROBES,), generator=generator)
    real = Tokens(tokens.ids[rows], tokens.lengths[rows])
    random_ids = torch.randint(tokenizer.vocab_size, real.ids.shape, generator=generator)
    random = tokenizer.try_decode(Tokens(random_ids, real.lengths))
    slots = (torch.rand(PROBES, generator=generator) * real.lengths).long()
    corrupted_ids = real.ids.scatter(1, slots[:, None], random_ids.gather(1, slots[:, None]))
    corrupted = tokenizer.try_decode(Tokens(corrupted_ids, real.lengths))
    truth = tokenizer.try_decode(real)
    changes = [
        float((a - b).double().square().mean())
        for a, b in zip(corrupted, truth, strict=True)
        if a is not None and b is not None
    ]
    return Robustness(
        random_finite=_share(random, is_finite=True),
        random_undecodable=_share(random, is_finite=None),
        corrupted_finite=_share(corrupted, is_finite=True),
        corrupted_undecodable=_share(corrupted, is_finite=None),
        corrupted_mse=float(np.mean(changes)) if changes else None,
    )


def _share(chunks: list[Tensor | None], *, is_finite: bool | None) -> float:
    if is_finite is None:
        return sum(chunk is None for chunk in chunks) / len(chunks)
    return sum(chunk is not None and bool(torch.isfinite(chunk).all()) for chunk in chunks) / len(
        chunks
    )


def _chunks_per_s(work: Callable[[], object], size: int) -> float:
    """Median of repeated calls."""
    work()
    times: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < SPEED_SECONDS or len(times) < 3:
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return size / float(np.median(times))
