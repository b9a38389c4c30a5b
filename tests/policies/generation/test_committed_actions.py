"""Tokens that go on from committed actions: nothing committed changes nothing, and chunks come
nearer to what is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from oatkit.data import Dataset
from oatkit.data.action_transform import ActionTransform
from oatkit.errors import DecodeError
from oatkit.policies import Policy, Prediction
from oatkit.policies.generation.committed_actions import (
    NUM_CANDIDATES,
    NUM_SLOTS,
    WIDTH,
    CommittedActions,
    can_commit,
    read_committed,
)
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.latency_measurement import REPEATS
from oatkit.tokenizers import KINDS
from oatkit.types import Sampling, Schedule, Tokens
from tests.policies import tiny
from tests.policies.tiny import seeded

PREFIXED = ("oat", "oat-pow2", "klt")
SAMPLINGS = (Sampling(), Sampling(0.0), Sampling(top_k=None), Sampling(0.7, top_p=0.8))
quickly = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def predict(policy: Policy, observation: Any, committed: Any, **options: Any) -> Prediction:
    own = [seeded(seed) for seed in range(len(observation["action"]))]
    return policy.predict_action_chunk(observation, generator=own, committed=committed, **options)


def assert_same(found: Prediction, wanted: Prediction) -> None:
    for name in ("chunk", "ids", "entropy_bits", "budget", "calls", "draws"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@given(
    kind=st.sampled_from(sorted({*KINDS} - {"fast"})),
    sampling=st.sampled_from(SAMPLINGS),
    budget=st.integers(1, 6),
    draws=st.integers(1, 3),
    has_rows=st.booleans(),
)
@quickly
def test_conditioning_on_nothing_equals_no_conditioning(
    policies: dict[str, Policy],
    dataset: Dataset,
    kind: str,
    sampling: Sampling,
    budget: int,
    draws: int,
    has_rows: bool,
) -> None:
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)
    nothing = np.zeros((3, 0, tiny.ACTION_DIM) if has_rows else (0, tiny.ACTION_DIM))
    options = {"sampling": sampling, "draws": draws}
    if kind in PREFIXED:
        options["budget"] = budget
    without = predict(policy, observation, None, **options)
    assert_same(predict(policy, observation, nothing, **options), without)


def test_nothing_is_no_error_of_fast(policies: dict[str, Policy], dataset: Dataset) -> None:
    """Random sequences of `fast` do not decode, whether nothing is committed or left out."""
    observation = tiny.batch(policies["fast"], dataset)
    with pytest.raises(DecodeError, match="did not decode in 10 attempts"):
        predict(policies["fast"], observation, np.zeros((0, tiny.ACTION_DIM)))


@pytest.fixture(scope="module")
def varied(dataset: Dataset) -> dict[str, Policy]:
    """Policies whose tokens matter, as trained ones do: random decoders hardly tell ids apart."""
    found = {kind: tiny.make_policy(kind, dataset) for kind in PREFIXED}
    for kind in ("oat", "oat-pow2"):
        found[kind].tokenizer.codec.head.weight.data.mul_(8)  # type: ignore[attr-defined]
    return found


@given(
    kind=st.sampled_from(PREFIXED),
    seed=st.integers(0, 1000),
    num_steps=st.integers(1, tiny.HORIZON),
    sampling=st.sampled_from(SAMPLINGS),
)
@quickly
def test_the_first_actions_come_nearer(
    varied: dict[str, Policy],
    dataset: Dataset,
    kind: str,
    seed: int,
    num_steps: int,
    sampling: Sampling,
) -> None:
    """The mean over observations, with another network and other goals for every example."""
    policy = varied[kind]
    torch.manual_seed(seed)
    for parameter in policy.net.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    observation = tiny.batch(policy, dataset, size=48)
    shuffled = np.random.default_rng(seed).permutation(48)
    committed = np.asarray(observation["action"])[shuffled, :num_steps]

    def distance(found: Prediction) -> float:
        away = (found.chunk[:, :num_steps] - committed) / policy.tokenizer.normalizer.scale
        return float(np.square(away).mean())

    guided = distance(predict(policy, observation, committed, sampling=sampling))
    assert guided <= distance(predict(policy, observation, None, sampling=sampling))


@given(
    kind=st.sampled_from(PREFIXED),
    seed=st.integers(0, 1000),
    budgets=st.tuples(st.integers(1, 6), st.integers(1, 6)).map(sorted),
    schedule=st.sampled_from([(6,), (3, 6), (2, 6), (1, 2, 3, 4, 5, 6)]),
    sampling=st.sampled_from(SAMPLINGS),
)
@quickly
@pytest.mark.filterwarnings("ignore:the policy was trained to generate")
def test_a_smaller_budget_gives_a_prefix_of_a_larger_one(
    varied: dict[str, Policy],
    dataset: Dataset,
    kind: str,
    seed: int,
    budgets: list[int],
    schedule: tuple[int, ...],
    sampling: Sampling,
) -> None:
    policy = varied[kind]
    observation = tiny.batch(policy, dataset, size=12)
    shuffled = np.random.default_rng(seed).permutation(12)
    options: dict[str, Any] = {"sampling": sampling}
    if kind != "oat-pow2":  # which has 8 tokens
        options["schedule"] = Schedule(schedule)
    less, more = (
        predict(
            policy, observation, observation["action"][shuffled, :3], budget=budget, **options
        ).ids
        for budget in budgets
    )
    np.testing.assert_array_equal(less[:, : budgets[0]], more[:, : budgets[0]])


def slow_choice(
    policy: Policy, logits_K: list[Tensor], committed_PA: Tensor, budget: int
) -> list[int]:
    """The likeliest ids of a token-wise schedule, found by decoding one candidate at a time."""
    ids: list[int] = []
    for slot, logits_V in enumerate(logits_K):
        if slot >= NUM_SLOTS:
            ids.append(int(logits_V.argmax()))
            continue
        scores = {}
        for candidate in logits_V.topk(min(NUM_CANDIDATES, len(logits_V))).indices.tolist():
            tried = Tokens.full(torch.tensor([[*ids, candidate]]))
            decoded_PA = policy.tokenizer.decode_normalized(tried)[0, : len(committed_PA)]
            away = float((decoded_PA - committed_PA).square().sum())
            scores[candidate] = float(logits_V[candidate]) - away / (2 * WIDTH**2)
        ids.append(max(scores, key=scores.__getitem__))
    return ids[:budget]


@pytest.mark.parametrize("budget", [1, 4, 6])
def test_ids_are_those_of_a_slow_loop(
    budget: int, policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies["oat"]
    committed_BPA = torch.rand(2, 2, tiny.ACTION_DIM, generator=seeded()) - 0.5
    logits_BKV = torch.randn(2, budget, policy.tokenizer.vocab_size, generator=seeded(1))
    guide = CommittedActions(policy.tokenizer, committed_BPA, budget)
    ids_BK = torch.zeros(2, 0, dtype=torch.int64)
    for slot in range(budget):
        new_BG = guide.choose(
            ids_BK, logits_BKV[:, slot : slot + 1], torch.zeros(2, 1), Sampling(0.0)
        )
        ids_BK = torch.cat([ids_BK, new_BG], dim=1)
    for row in range(2):
        wanted = slow_choice(policy, list(logits_BKV[row]), committed_BPA[row], budget)
        assert ids_BK[row].tolist() == wanted


@pytest.mark.parametrize(("budget", "num_guided"), [(3, 1), (4, 2), (8, 2)])
def test_later_slots_are_chosen_as_without(
    budget: int, num_guided: int, policies: dict[str, Policy]
) -> None:
    """Those past the budget, which are not decoded, and those past the first ones."""
    policy = policies["oat-pow2"]
    guide = CommittedActions(policy.tokenizer, torch.full((30, 2, tiny.ACTION_DIM), 9.0), budget)
    logits = torch.randn(30, 6, policy.tokenizer.vocab_size, generator=seeded(2))
    uniform = torch.rand(30, 6, generator=seeded(3))
    before = torch.zeros(30, 2, dtype=torch.int64)
    is_other = guide.choose(before, logits, uniform, Sampling()) != Sampling().choose(
        logits, uniform
    )
    assert is_other.any(dim=0).tolist() == [slot < num_guided for slot in range(6)]


def test_one_frame_and_one_row_for_all(policies: dict[str, Policy], dataset: Dataset) -> None:
    policy = policies["klt"]
    observation = tiny.batch(policy, dataset)
    steps = np.asarray(observation["action"])[0, :2]
    each = predict(policy, observation, np.stack([steps] * 3))
    assert_same(predict(policy, observation, steps), each)
    assert_same(predict(policy, observation, torch.from_numpy(steps)), each)
    frame = {"observation.state": observation["observation.state"][0, -1]}
    frame["task"] = observation["task"][0]
    policy.reset()
    found = policy.predict_action_chunk(frame, sampling=Sampling(0.0), committed=steps)
    assert found.chunk.shape == (tiny.HORIZON, tiny.ACTION_DIM)
    policy.reset()


def test_draws_budgets_and_deadlines_go_together(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    observation = tiny.batch(policy, dataset)
    steps = np.asarray(observation["action"])[:, :3]
    alone, four = (predict(policy, observation, steps, draws=draws) for draws in (1, 4))
    np.testing.assert_array_equal(four.ids, alone.ids)
    assert four.draws.shape == (3, 4, tiny.HORIZON, tiny.ACTION_DIM)
    policy.auto = AutoThresholds((2,), (64.0,))
    assert predict(policy, observation, steps, budget="auto").budget.tolist() == [2] * 3
    assert predict(policy, observation, steps, deadline_ms=1e-3).budget.tolist() == [1] * 3
    assert predict(policy, observation, steps, deadline_ms=1e6).budget.tolist() == [8] * 3


def test_candidates_are_decoded_where_the_latency_of_committed_actions_is_measured(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    decode, decoded = policy.tokenizer.decode_normalized, []

    def count(tokens: Tokens) -> Tensor:
        decoded.append(len(tokens.ids))
        return decode(tokens)

    monkeypatch.setattr(policy.tokenizer, "decode_normalized", count)
    plain = policy.token_predictor.latency(8)
    num_plain = len(decoded)
    policy.token_predictor.latency(8, is_committed=True)
    assert decoded.count(8) == 2 * num_plain, "chunks are decoded at the end of both"
    assert decoded[num_plain:].count(8 * NUM_CANDIDATES) == (REPEATS + 1) * NUM_SLOTS
    assert policy.token_predictor.latency(8) is plain


def test_chunks_are_corrected_after(dataset: Dataset) -> None:
    """Ids are those of the policy without its offset head, which moves the decoded chunk."""
    policy = tiny.make_policy("oat", dataset, offset_layers=1)
    observation = tiny.batch(policy, dataset)
    steps = np.asarray(observation["action"])[:, :3]
    found = predict(policy, observation, steps)
    decoded = np.asarray(policy.tokenizer.decode(found.ids))
    assert not np.allclose(found.chunk, decoded)
    policy.token_predictor._correct = None
    np.testing.assert_array_equal(predict(policy, observation, steps).ids, found.ids)


def test_actions_are_coded_as_those_of_a_chunk(dataset: Dataset) -> None:
    """Also where a step is the difference to the one before, and the first has its own size."""
    names, states = list("abc"), list("vwxyz")
    tokenizer = tiny.make_tokenizer("oat", dataset)
    chunks = np.asarray(dataset.chunks(tiny.HORIZON).actions(np.arange(4))[0], np.float32)
    state_BS = torch.randn(4, 5, generator=seeded())
    for words in ("delta:0-1", "relative:0-1@2-3"):
        transform = ActionTransform.parse(words, names, states)
        rows = tiny.HORIZON if transform.has_own_first_step else 1
        normalizer = replace(
            tokenizer.normalizer,
            offset=np.linspace(0, 1, rows * 3).reshape(rows, 3),
            scale=np.linspace(1, 2, rows * 3).reshape(rows, 3),
            transform=transform,
        )
        tokenizer.normalizer = normalizer
        whole = normalizer.normalize(torch.from_numpy(chunks), state_BS)
        found = read_committed(tokenizer, chunks[:, :3], 4, state_BS)
        torch.testing.assert_close(found, whole[:, :3])


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (np.zeros((2, 4)), r"committed is \(2, 4\), expected \(steps, 3\) or \(3, steps, 3\), and"),
        (np.zeros((2, 2, 3)), r"committed is \(2, 2, 3\), expected .* and at most 8 steps"),
        (np.zeros((9, 3)), r"committed is \(9, 3\), expected .* and at most 8 steps"),
        (np.zeros(3), r"committed is \(3,\), expected"),
        (np.full((2, 3), np.nan), "committed is not finite"),
        (np.full((2, 3), np.inf), "committed is not finite"),
    ],
)
def test_what_is_no_committed_action_is_refused(
    given_: Any, said: str, policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies["oat"]
    with pytest.raises(ValueError, match=said):
        predict(policy, tiny.batch(policy, dataset), given_)


@pytest.mark.parametrize("kind", ["bin", "fast", "quest", "acodec"])
def test_other_kinds_refuse(kind: str, policies: dict[str, Policy], dataset: Dataset) -> None:
    policy = policies[kind]
    assert not can_commit(policy.tokenizer)
    said = (
        f"{kind} decodes only all of its tokens: committed actions are for kinds whose prefixes "
        "decode, such as oat"
    )
    with pytest.raises(ValueError, match=said):
        predict(policy, tiny.batch(policy, dataset), np.zeros((1, tiny.ACTION_DIM)))


def test_a_flow_head_refuses(dataset: Dataset) -> None:
    policy = tiny.make_flow_policy(dataset)
    said = "a flow expert acts, which takes no committed actions: leave committed out"
    with pytest.raises(ValueError, match=said):
        policy.predict_action_chunk(tiny.batch(policy, dataset), committed=np.zeros((1, 3)))
    nothing = policy.predict_action_chunk(tiny.batch(policy, dataset), committed=np.zeros((0, 3)))
    assert nothing.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
