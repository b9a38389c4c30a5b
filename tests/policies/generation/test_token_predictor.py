"""Predictions from tokens: budgets, schedules, and sequences of `fast` that may not decode."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.errors import DecodeError
from oatkit.policies import Policy, Prediction
from oatkit.policies.generation.deadline import Latency
from oatkit.policies.observation.observations import Observations
from oatkit.storage.artifact import UNTRAINED
from oatkit.types import Sampling, Schedule, Tokens
from tests.policies import tiny
from tests.policies.tiny import seeded

PREFIXED = ("oat", "oat-pow2", "klt")


class Saying:
    """A generation that gives these tokens, each row with its end."""

    def __init__(self, tokens: Tokens, policy: Policy) -> None:
        self._wanted = torch.full((len(tokens), policy.tokenizer.max_tokens), policy.net.end_id)
        for row, ids, length in zip(self._wanted, tokens.ids, tokens.lengths, strict=True):
            row[:length] = ids[:length]
        self._num_outputs = policy.tokenizer.vocab_size + 1
        self._slots = iter(range(policy.tokenizer.max_tokens))

    def feed(self, *_: Any) -> Tensor:
        ids = self._wanted[:, next(self._slots), None]
        return torch.nn.functional.one_hot(ids, self._num_outputs) * 50.0


def test_fast_ends_with_its_symbol(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    tokens = policy.tokenizer.encode(observation["action"])
    lengths = tokens.lengths
    policy.net.start = lambda *_: Saying(tokens, policy)  # type: ignore[method-assign]
    found = policy.predict_action_chunk(observation)
    assert found.budget.tolist() == lengths.tolist()
    assert found.calls.tolist() == [min(n + 1, policy.schedule.calls) for n in lengths.tolist()]
    wanted = np.asarray(policy.tokenizer.decode(tokens))
    np.testing.assert_allclose(found.chunk, wanted, atol=1e-5)


def test_fast_tries_again_and_then_says_so(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    with pytest.raises(
        DecodeError, match=r"3 of 3 sequences did not decode in 10 attempts; the last"
    ):
        policy.predict_action_chunk(observation, generator=seeded())
    real = policy.tokenizer.decode_normalized
    calls: list[int] = []

    def decode(tokens: Tokens) -> Tensor:
        calls.append(1)
        if len(calls) in (2, 4):  # row 1 twice
            raise DecodeError("short")
        return torch.zeros(1, tiny.HORIZON, tiny.ACTION_DIM)

    policy.tokenizer.decode_normalized = decode  # type: ignore[assignment, method-assign]
    found = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    assert found.attempts.tolist() == [1, 3, 1]
    assert len(calls) == 5
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    policy.tokenizer.decode_normalized = real  # type: ignore[method-assign]


class Torn:
    """A generation whose likeliest sequence is empty; the second likeliest is these tokens."""

    def __init__(self, ids_K: Tensor, end_id: int, count: int) -> None:
        self._inputs = iter([*ids_K.tolist(), end_id])
        self._end_id, self._count, self._is_first = end_id, count, True

    def feed(self, *_: Any) -> Tensor:
        logits = torch.zeros(self._count, 1, self._end_id + 1)
        logits[..., next(self._inputs, self._end_id)] = 50.0
        if self._is_first:
            logits[..., self._end_id] = 50.1
        self._is_first = False
        return logits


@pytest.mark.parametrize("greedy", [Sampling(0.0), Sampling(top_k=1), Sampling(0.0, 1, 0.01)])
def test_a_greedy_sequence_that_does_not_decode_is_sampled_again(
    greedy: Sampling, dataset: Dataset
) -> None:
    """The likeliest sequence is the same in every attempt, on any device."""
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    tokens = policy.tokenizer.encode(observation["action"])
    ids_K = tokens.ids[0, : tokens.lengths[0]]
    assert policy.net.end_id is not None
    end_id = policy.net.end_id
    policy.net.start = lambda _, count, __: Torn(ids_K, end_id, count)  # type: ignore[assignment, method-assign]
    found = policy.predict_action_chunk(observation, sampling=greedy, generator=seeded())
    assert found.attempts.min() > 1
    wanted = policy.tokenizer.decode(ids_K[None]).numpy()
    np.testing.assert_allclose(found.chunk, wanted.repeat(3, axis=0), atol=1e-5)


def test_relaxed_fast_mends_instead(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    policy.tokenizer.choose_decoding("relaxed")
    found = policy.predict_action_chunk(tiny.batch(policy, dataset), generator=seeded())
    assert found.attempts.tolist() == [1, 1, 1]
    assert np.isfinite(found.chunk).all()
    prefix = policy.predict_action_chunk(tiny.batch(policy, dataset), budget=3, generator=seeded())
    assert (prefix.budget <= 3).all()
    assert prefix.ids.shape == prefix.entropy_bits.shape
    with pytest.raises(ValueError, match="fast decodes only all of its tokens: budget auto"):
        policy.predict_action_chunk(tiny.batch(policy, dataset), budget="auto")
    assert len(policy.token_predictor.latency().stages_ms) == policy.schedule.calls


def test_draws_that_were_never_measured_take_as_many_times_as_long(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, measured = tiny.make_policy("oat", dataset), []

    def measure(net: Any, tokenizer: Any, schedule: Any, batch: Any, *_: Any, **__: Any) -> Latency:
        measured.append(len(batch))
        return Latency((1.0, 2.0), 0.5)

    monkeypatch.setattr("oatkit.policies.generation.token_predictor.measure_latency", measure)
    predictor, rest = policy.token_predictor, (policy.schedule, False)
    assert predictor._latency_of_draws(2, 3, *rest) == Latency((3.0, 6.0), 1.5)
    assert predictor._latency_of_draws(2, 1, *rest) == Latency((1.0, 2.0), 0.5)
    assert measured == [2]
    assert predictor.latency(6) is predictor._latency_of_draws(2, 3, *rest)


def test_rows_between_measured_ones_take_a_time_between_theirs(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, measured = tiny.make_policy("oat", dataset), []

    def measure(net: Any, tokenizer: Any, schedule: Any, batch: Any, *_: Any, **__: Any) -> Latency:
        measured.append(len(batch))
        return Latency((1.0, 2.0 * len(batch)), 10.0 * len(batch))

    monkeypatch.setattr("oatkit.policies.generation.token_predictor.measure_latency", measure)
    predictor = policy.token_predictor
    predictor.latency(2)
    predictor.latency(4)
    assert predictor._latency_of_draws(3, 1, policy.schedule, False) == Latency((1.0, 6.0), 30.0)
    assert measured == [2, 4]
    predictor._latency_of_draws(3, 1, policy.schedule, True)
    assert measured == [2, 4, 3], "where actions are committed nothing was measured before"


@pytest.mark.parametrize("kind", PREFIXED)
def test_budgets_nest(kind: str, policies: dict[str, Policy], dataset: Dataset) -> None:
    """The same random numbers at every budget; inside a block the surplus is dropped."""
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)
    full = policy.predict_action_chunk(observation, generator=seeded())
    for budget in np.arange(1, policy.tokenizer.max_tokens + 1):
        found = policy.predict_action_chunk(observation, budget=budget, generator=seeded())
        np.testing.assert_array_equal(found.ids[:, :budget], full.ids[:, :budget])
        wanted = policy.tokenizer.decode(full.ids, budget=budget)
        np.testing.assert_allclose(found.chunk, wanted, rtol=1e-4, atol=1e-5)
        assert found.budget.tolist() == [budget] * 3
        assert found.calls.tolist() == [policy.schedule.calls_for(budget)] * 3
        assert found.ids.shape[1] == policy.schedule.endpoints[found.calls[0] - 1]


def test_another_schedule_warns_once(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    for made in (policy, policy.tokenizer):  # which warn too
        made.extras.pop(UNTRAINED)
    observation = tiny.batch(policy, dataset)
    with pytest.warns(UserWarning, match=r"trained to generate \[1, 2, 4, 8\] tokens stage by"):
        found = policy.predict_action_chunk(observation, schedule=Schedule.one_shot(8))
    assert found.calls.tolist() == [1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.predict_action_chunk(observation, schedule=Schedule.one_shot(8))
        policy.predict_action_chunk(observation, schedule=Schedule.pow2(8))
    with pytest.warns(UserWarning, match="stage by stage"):
        found = policy.predict_action_chunk(observation, schedule=Schedule((1, 3)))
    assert found.budget.tolist() == [3, 3, 3]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0)])
@pytest.mark.parametrize("kind", ["oat-pow2", "bin"])
def test_the_first_draw_is_as_it_would_be_alone(
    kind: str, sampling: Sampling, policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)

    def predict(draws: int) -> Prediction:
        own = [seeded(seed) for seed in range(3)]
        return policy.predict_action_chunk(
            observation, sampling=sampling, generator=own, draws=draws
        )

    alone, four = predict(1), predict(4)
    assert alone.draws is None
    np.testing.assert_array_equal(four.ids, alone.ids)
    np.testing.assert_allclose(four.chunk, alone.chunk, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(four.draws[:, 0], four.chunk)
    assert four.draws.shape == (3, 4, tiny.HORIZON, tiny.ACTION_DIM)
    assert len(np.unique(four.draws, axis=1).reshape(-1, tiny.HORIZON, tiny.ACTION_DIM)) == 12
    np.testing.assert_array_equal(predict(4).draws, four.draws)


def test_observations_are_encoded_once_for_all_draws(
    policies: dict[str, Policy], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = policies["oat-pow2"]
    sizes: list[int] = []
    real = policy.net.encode

    def counted(observations: Observations) -> Any:
        sizes.append(len(observations))
        return real(observations)

    monkeypatch.setattr(policy.net, "encode", counted)
    policy.predict_action_chunk(tiny.batch(policy, dataset), draws=5)
    assert sizes == [3]


def test_draws_that_do_not_decode_are_generated_again(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    tokens = policy.tokenizer.encode(observation["action"])
    rows = torch.arange(6) % 3
    wanted = Tokens(tokens.ids[rows], tokens.lengths[rows])
    broken = Tokens(wanted.ids.clone(), wanted.lengths.clone())
    broken.lengths[[1, 4]] = 0  # one sequence of each draw
    starts = []

    def start(context: Any, batch_size: int, num_slots: int) -> Saying:
        starts.append(batch_size)
        if len(starts) == 1:
            return Saying(broken, policy)
        return Saying(Tokens(wanted.ids[[1, 4]], wanted.lengths[[1, 4]]), policy)

    policy.net.start = start  # type: ignore[method-assign, assignment]
    found = policy.predict_action_chunk(
        observation, draws=2, generator=[seeded(seed) for seed in range(3)]
    )
    assert starts == [6, 2]
    np.testing.assert_allclose(
        found.draws[:, 1], np.asarray(policy.tokenizer.decode(tokens)), atol=1e-5
    )
    assert found.attempts.tolist() == [1, 2, 1]


def test_a_prediction_says_why_it_stopped(policies: dict[str, Policy], dataset: Dataset) -> None:
    policy = policies["oat-pow2"]
    batch = tiny.batch(policy, dataset)
    assert policy.predict_action_chunk(batch).stopped == ["all"] * 3
    assert policy.predict_action_chunk(batch, budget=2).stopped == ["budget"] * 3
    assert policy.predict_action_chunk(batch, deadline_ms=1e-3).stopped == ["deadline"] * 3
    short = policy.predict_action_chunk(batch, schedule=None, budget=8, deadline_ms=60_000)
    assert short.stopped == ["all"] * 3
