"""When `budget="auto"` stops, and how its thresholds are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation.early_stop import (
    MIN_SAVING,
    AutoThresholds,
    StageCosts,
    expected_excess,
    find_thresholds,
    require_thresholds,
    stop_stages,
)
from oatkit.tokenizers import ActionTokenizer
from tests.policies import tiny
from tests.policies.tiny import seeded

NUM_TOKENS = (1, 2, 4, 8)
Array = NDArray[np.float64]


def costs(*stages_ms: float, decode_ms: float = 1.0) -> StageCosts:
    stopped_ms = np.cumsum(stages_ms) + decode_ms
    return StageCosts(stopped_ms, float(stopped_ms[-1]))


def held_out(seed: int = 0, num_chunks: int = 200) -> tuple[Array, Array]:
    """Entropies, and an excess that grows with them and falls with the stage."""
    rng = np.random.default_rng(seed)
    entropy_NS = 4 * rng.random((num_chunks, 4))
    excess_NS = entropy_NS * rng.random((num_chunks, 4)) * [0.4, 0.2, 0.1, 0.0]
    return entropy_NS, excess_NS


def test_auto_stops_by_its_rule_and_never_looks_ahead(
    policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.batch(policy, dataset, 16)
    tokenizer, endpoints = policy.tokenizer, policy.schedule.endpoints
    full = policy.predict_action_chunk(observation, generator=seeded())
    so_far_NS = np.stack([full.entropy_bits[:, :end].mean(axis=1) for end in endpoints], axis=1)
    # between two rows, so that rounding decides nothing
    limits = np.quantile(so_far_NS[:, :2], 0.303, axis=0)
    policy.auto = AutoThresholds(endpoints[:2], tuple(limits.tolist()))
    stage_N = stop_stages(policy.auto, endpoints, so_far_NS)
    assert len(set(stage_N.tolist())) == 3, "rows stop at different stages"
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert found.calls.tolist() == (stage_N + 1).tolist()
    assert found.budget.tolist() == [endpoints[stage] for stage in stage_N]
    for row, stage in enumerate(stage_N):
        wanted = tokenizer.decode(full.ids, budget=endpoints[stage])[row]
        np.testing.assert_allclose(found.chunk[row], wanted, rtol=1e-4, atol=1e-5)
        alone = policy.predict_action_chunk(
            tiny.row(observation, row), budget="auto", generator=seeded()
        )
        assert alone.ids.shape[1] == alone.budget[0], "no stage is run past the stop"
    policy.auto = AutoThresholds()
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    np.testing.assert_array_equal(found.ids, full.ids)
    np.testing.assert_array_equal(found.chunk, full.chunk)


def test_rows_of_a_batch_stop_as_they_do_alone(
    policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies["oat"]
    observation = tiny.batch(policy, dataset, 6)
    full = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(6)])
    policy.auto = AutoThresholds((1,), (float(np.quantile(full.entropy_bits[:, 0], 0.503)),))
    together = policy.predict_action_chunk(
        observation, budget="auto", generator=[seeded(i) for i in range(6)]
    )
    assert sorted(together.budget.tolist()) == [1, 1, 1, 6, 6, 6]
    for row in range(6):
        one = tiny.row(observation, row)
        alone = policy.predict_action_chunk(one, budget="auto", generator=[seeded(row)])
        assert alone.budget[0] == together.budget[row]
        assert alone.calls[0] == together.calls[row]
        np.testing.assert_allclose(alone.chunk[0], together.chunk[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", [-1.0, 2.0, 1000.0])
def test_auto_decodes_once_and_runs_no_more_stages_than_all_tokens(
    bits: float, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny.make_policy("oat", dataset)
    policy.auto = AutoThresholds((1, 2, 4), (bits,) * 3)
    real, decoded = ActionTokenizer.decode_normalized, []

    def noted(self: ActionTokenizer, *args: Any, **kwargs: Any) -> Any:
        decoded.append(args)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(ActionTokenizer, "decode_normalized", noted)
    for deadline_ms in (None, 1e6):
        observation = tiny.batch(policy, dataset, 5)
        policy.token_predictor.latency(5)  # which decodes too
        decoded.clear()
        found = policy.predict_action_chunk(observation, budget="auto", deadline_ms=deadline_ms)
        assert len(decoded) == 1
        assert (found.calls <= policy.schedule.calls).all()


def test_where_no_row_may_stop_nobody_looks(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking waits for the device, which all tokens need not."""
    thresholds = AutoThresholds((2,), (1.0,))
    bits = torch.zeros(3, 1)
    assert thresholds.stops([bits]) is None
    assert AutoThresholds().stops([bits, bits]) is None
    found = thresholds.stops([bits, torch.tensor([[1.9], [2.0], [2.1]])])
    assert found is not None
    assert found.tolist() == [True, True, False], "the mean so far, not that of the last stage"


def test_another_schedule_stops_where_it_has_as_many_tokens(
    policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.batch(policy, dataset, 2)
    policy.auto = AutoThresholds((2,), (1000.0,))
    for endpoints, budget in (((1, 2, 3, 4, 5, 6, 7, 8), 2), ((1, 4, 8), 8), ((8,), 8)):
        schedule = type(policy.schedule)(endpoints)
        with pytest.warns(UserWarning, match="expect worse chunks"):
            found = policy.predict_action_chunk(observation, budget="auto", schedule=schedule)
        assert found.budget.tolist() == [budget] * 2, endpoints


def test_thresholds_are_the_fastest_that_are_allowed() -> None:
    entropy_NS, excess_NS = held_out()
    entropy_NS[:100], excess_NS[:100, 1:] = 0.0, 0.0  # half of them are finished after stage 2
    excess_NS[:100, 0] = 0.4
    times = costs(1, 1, 1, 1)

    def measured(allowed: float) -> tuple[float, float]:
        found = find_thresholds(NUM_TOKENS, entropy_NS, excess_NS, times, allowed)
        stage_N = stop_stages(found, NUM_TOKENS, entropy_NS)
        return float(stage_N.mean()) + 1, float(excess_NS[np.arange(200), stage_N].mean())

    none, some, much = (measured(allowed) for allowed in (0.0, 0.05, 0.2))
    assert none == (3, 0), "two calls for one half, four for the other"
    assert none[0] > some[0] > much[0]
    assert 0 < some[1] <= 0.05 < much[1] <= 0.2


@given(
    seed=st.integers(0, 100),
    allowed=st.floats(0, 0.5),
    stages_ms=st.lists(st.floats(0.01, 10), min_size=4, max_size=4),
)
def test_the_limit_holds_and_all_tokens_are_never_faster(
    seed: int, allowed: float, stages_ms: list[float]
) -> None:
    entropy_NS, excess_NS = held_out(seed, 64)
    times = costs(*stages_ms)
    found = find_thresholds(NUM_TOKENS, entropy_NS, excess_NS, times, allowed)
    stage_N = stop_stages(found, NUM_TOKENS, entropy_NS)
    assert excess_NS[np.arange(64), stage_N].mean() <= allowed
    if found != AutoThresholds():
        assert times.stopped_ms[stage_N].mean() < (1 - MIN_SAVING) * times.all_ms
    assert list(found.num_tokens) == sorted(set(found.num_tokens) - {8})


def test_the_limit_about_holds_on_chunks_that_were_not_seen() -> None:
    times = costs(1, 1, 1, 1)
    found = find_thresholds(NUM_TOKENS, *held_out(0, 512), times, 0.05)
    entropy_NS, excess_NS = held_out(1, 512)
    stage_N = stop_stages(found, NUM_TOKENS, entropy_NS)
    assert excess_NS[np.arange(512), stage_N].mean() <= 1.2 * 0.05
    assert stage_N.mean() < 2.5


@pytest.mark.parametrize(
    "times",
    [
        costs(0, 0, 0, 0),  # only decoding costs something
        StageCosts(np.array([4.0, 5.0, 6.0, 7.0]), 4.0),  # looking costs more than it saves
        costs(1, 1e-3, 1e-3, 1e-3),  # what is saved is lost in the noise
    ],
)
def test_nothing_stops_where_that_is_no_faster(times: StageCosts) -> None:
    assert find_thresholds(NUM_TOKENS, *held_out(), times, 10.0) == AutoThresholds()


def test_a_single_stage_has_nothing_to_stop() -> None:
    entropy_NS, excess_NS = held_out()
    found = find_thresholds((8,), entropy_NS[:, :1], excess_NS[:, :1], costs(1.0), 1.0)
    assert found == AutoThresholds()


def test_rows_stop_where_time_is_saved() -> None:
    """A last stage that takes as long as the others together is worth stopping before."""
    entropy_NS, excess_NS = held_out()
    cheap, dear = (
        find_thresholds(NUM_TOKENS, entropy_NS, excess_NS, costs(1, 1, 1, last_ms), 0.1)
        for last_ms in (0.1, 20.0)
    )
    after = [stop_stages(found, NUM_TOKENS, entropy_NS) for found in (cheap, dear)]
    assert np.mean(after[0] == 3) > np.mean(after[1] == 3)


@given(seed=st.integers(0, 100), num_chunks=st.integers(1, 40))
def test_the_expected_excess_never_falls_with_the_entropy(seed: int, num_chunks: int) -> None:
    entropy_SQ, excess_SQ = expected_excess(*held_out(seed, num_chunks))
    assert entropy_SQ.shape == excess_SQ.shape
    assert (np.diff(entropy_SQ, axis=1) >= 0).all()
    assert (np.diff(excess_SQ, axis=1) >= 0).all()


def test_what_an_artifact_holds() -> None:
    thresholds = AutoThresholds((1, 4), (0.5, 2.0))
    stored = {"num_tokens": [1, 4], "entropy_bits": [0.5, 2.0]}
    assert AutoThresholds.from_json(stored) == thresholds
    assert AutoThresholds.from_json(None) is None
    assert AutoThresholds.from_json({"change": 0.1, "entropy_bits": 2.0}) is None, "another rule"
    assert require_thresholds(thresholds) is thresholds
    with pytest.raises(ValueError, match="no thresholds: `oatkit policy calibrate POLICY --data"):
        require_thresholds(None)
