"""When `budget="auto"` stops, and how its thresholds are found."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from oatkit.data import Dataset
from oatkit.policies import LightPolicy
from oatkit.policies.generation.early_stop import (
    AutoThresholds,
    EarlyStop,
    chunk_change,
    find_thresholds,
)
from tests.policies import tiny
from tests.policies.tiny import seeded


def test_auto_stops_by_its_rules_and_never_looks_ahead(
    policies: dict[str, LightPolicy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.batch(policy, dataset, 16)
    tokenizer, endpoints = policy.tokenizer, policy.schedule.endpoints
    full = policy.predict_action_chunk(observation, generator=seeded())
    chunks = [tokenizer.decode(full.ids, budget=b) for b in endpoints]
    scale = tokenizer.normalizer.scale
    change = np.stack(
        [np.full(16, np.inf)]
        + [np.sqrt(np.square((b - a) / scale).mean(axis=(1, 2))) for a, b in pairwise(chunks)],
        axis=1,
    )
    blocks = pairwise((0, *endpoints))
    entropy = np.stack([full.entropy_bits[:, a:b].mean(axis=1) for a, b in blocks], axis=1)
    # between two rows, so that rounding decides nothing
    most_change, most_entropy = np.quantile(change[:, 1:], 0.503), np.quantile(entropy, 0.103)
    limits = AutoThresholds(float(most_change), float(most_entropy))
    policy.auto = limits
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    stops = (change <= limits.change) | (entropy <= limits.entropy_bits)
    stops[:, -1] = True
    stage = stops.argmax(axis=1)
    assert len(set(stage.tolist())) > 1, "rows stop at different stages"
    assert found.calls.tolist() == (stage + 1).tolist()
    assert found.budget.tolist() == [endpoints[s] for s in stage]
    for i, s in enumerate(stage):
        np.testing.assert_allclose(found.chunk[i], chunks[s][i], rtol=1e-4, atol=1e-5)
        alone = policy.predict_action_chunk(
            tiny.row(observation, i), budget="auto", generator=seeded()
        )
        assert alone.ids.shape[1] == alone.budget[0], "no stage is run past the stop"
    policy.auto = AutoThresholds(-1.0, -1.0)
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    np.testing.assert_array_equal(found.ids, full.ids)


def test_thresholds_are_the_cheapest_that_are_allowed() -> None:
    rng = np.random.default_rng(0)
    excess = np.sort(rng.random((200, 4)), axis=1)[:, ::-1] * [1, 1, 1, 0]
    excess[:100, 1:] = 0  # half of the rows are finished after stage 2
    change = np.concatenate([np.full((200, 1), np.inf), -np.diff(excess, axis=1)], axis=1)
    change[:100, 1] = 0
    entropy = rng.random((200, 4)) + 1

    def mean_calls_and_excess(allowed: float) -> tuple[float, float]:
        found = find_thresholds(change, entropy, excess, allowed)
        stops = (change <= found.change) | (entropy <= found.entropy_bits)
        stops[:, -1] = True
        stage = stops.argmax(axis=1)
        return float(stage.mean()) + 1, float(excess[np.arange(200), stage].mean())

    none, some, much = (mean_calls_and_excess(allowed) for allowed in (0.0, 0.1, 0.3))
    assert none == (3, 0), "two calls for one half, four for the other"
    assert none[0] > some[0] > much[0]
    assert some[1] <= 0.1
    assert much[1] <= 0.3
    flat = find_thresholds(change[:, :1], entropy[:, :1], excess[:, :1], 1.0)
    assert flat == AutoThresholds(-1.0, -1.0)


def test_a_row_keeps_the_chunk_it_stopped_with(
    policies: dict[str, LightPolicy],
) -> None:
    tokenizer = policies["klt"].tokenizer
    ids = torch.randint(tokenizer.vocab_size, (2, 2), generator=seeded())
    stop = EarlyStop(tokenizer, AutoThresholds(-1.0, 0.5))
    sure, unsure = torch.zeros(1), torch.ones(1)
    assert stop.after_stage(ids[:, :1], torch.stack([sure, unsure]), 1).tolist() == [True, False]
    first = tokenizer.decode(ids, budget=1)
    assert stop.after_stage(ids, torch.stack([unsure, unsure]), 2).tolist() == [True, False]
    assert stop.chunk_NTA is not None
    torch.testing.assert_close(stop.chunk_NTA[0], first[0])
    torch.testing.assert_close(stop.chunk_NTA[1], tokenizer.decode(ids, budget=2)[1])


def test_the_first_chunk_changes_infinitely() -> None:
    chunk, scale = torch.zeros(2, 3, 1), torch.tensor([2.0])
    assert chunk_change(chunk, None, scale).tolist() == [torch.inf] * 2
    assert chunk_change(chunk + 4, chunk, scale).tolist() == [2, 2]
