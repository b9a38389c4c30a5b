"""Who is answered with whom, when, and with how many tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oatkit.policies import Policy
from oatkit.policies.observation.observations import Observations
from oatkit.serve.batcher import Answer, Batcher, BusyError
from oatkit.serve.request import Request
from oatkit.types import Sampling
from tests.policies import tiny
from tests.serve.slow import STATE, SlowPolicy, make_policy

Start = Callable[..., Batcher]


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return make_policy(Path(tmp_path_factory.mktemp("policy")))


@pytest.fixture
def policy(light: Policy) -> SlowPolicy:
    return SlowPolicy(light)


@pytest.fixture
def start(policy: SlowPolicy) -> Iterator[Start]:
    batchers = []

    def start(max_batch: int = 4, max_queue: int = 16, **settings: Any) -> Batcher:
        batcher = Batcher(policy, max_batch=max_batch, max_queue=max_queue, **settings)
        batcher.start()
        policy.batches.clear()
        policy.has_begun.clear()
        batchers.append(batcher)
        return batcher

    yield start
    policy.gate.set()
    for batcher in batchers:
        batcher.close()


Ask = Callable[..., Request]


@pytest.fixture(scope="module")
def ask(light: Policy) -> Ask:
    """A request as `RequestReader` makes it."""

    def ask(
        state: float = 0.0,
        *,
        budget: Any = None,
        within_s: float | None = None,
        now: float | None = None,
        sampling: Sampling = Sampling(),
    ) -> Request:
        now = time.perf_counter() if now is None else now
        observation = {"observation.state": STATE + np.float32(state), "task": "open the door"}
        read = Observations.from_frames([light.read(observation)])
        deadline = None if within_s is None else now + within_s
        return Request(read, budget, deadline, now, sampling)

    return ask


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 60))


async def held(policy: SlowPolicy, batcher: Batcher, ask: Ask) -> asyncio.Future[Answer]:
    """A request that keeps the thread busy until the gate opens."""
    policy.gate.clear()
    first = batcher.submit(ask())
    await asyncio.to_thread(policy.has_begun.wait)
    return first


def test_what_gathers_meanwhile_is_one_batch(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start(max_batch=4)

    async def main() -> list[Answer]:
        futures = [await held(policy, batcher, ask), *(batcher.submit(ask(i)) for i in range(6))]
        assert batcher.num_waiting == 6
        policy.gate.set()
        return await asyncio.gather(*futures)

    answers = run(main())
    assert policy.batches == [1, 4, 2]
    assert [answer.batch_size for answer in answers] == [1, 4, 4, 4, 4, 2, 2]
    assert all(len(answer.tokens) == len(answer.entropy_bits) == 8 for answer in answers)
    assert answers[1].queue_ms > 0


def test_a_row_is_the_same_in_any_batch(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start()

    def submit(state: int) -> asyncio.Future[Answer]:
        return batcher.submit(ask(state), torch.Generator().manual_seed(state))

    async def main() -> list[Answer]:
        first = await held(policy, batcher, ask)
        futures = [submit(i) for i in range(3)]
        policy.gate.set()
        await first
        together = await asyncio.gather(*futures)
        return [*together, *[await submit(i) for i in range(3)]]

    answers = run(main())
    assert policy.batches == [1, 3, 1, 1, 1]
    for together, alone in zip(answers[:3], answers[3:], strict=True):
        assert together.tokens == alone.tokens
        np.testing.assert_allclose(together.actions, alone.actions, rtol=1e-4, atol=1e-5)


def test_draws_and_committed_actions_are_answered_row_by_row(
    policy: SlowPolicy, light: Policy, start: Start, ask: Ask
) -> None:
    batcher = start(max_batch=6)
    committed = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 2, 3)

    def submit(row: int) -> asyncio.Future[Answer]:
        request = replace(ask(row), draws=3, committed=committed[row])
        return batcher.submit(request, torch.Generator().manual_seed(row))

    async def main() -> list[Answer]:
        first = await held(policy, batcher, ask)
        futures = [submit(0), submit(1), batcher.submit(ask(5))]
        policy.gate.set()
        await first
        return await asyncio.gather(*futures)

    async def one() -> Answer:
        return await submit(0)

    before = batcher.latencies.slowness
    run(one())
    assert batcher.latencies.slowness == before, "plans are made with the time of plain requests"
    policy.batches.clear()
    policy.has_begun.clear()
    *answers, plain = run(main())
    assert policy.batches == [1, 2, 1]
    assert plain.draws is None
    for row, answer in enumerate(answers):
        alone = light.predict_action_chunk(
            ask(row).observations, generator=[row], draws=3, committed=committed[row]
        )
        assert answer.tokens == alone.ids[0].tolist()
        assert answer.draws is not None
        np.testing.assert_array_equal(answer.draws[0], answer.actions)
        np.testing.assert_allclose(answer.draws, alone.draws[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("draws", "batches"), [(1, [4, 2]), (2, [2] * 3), (3, [1] * 6)])
def test_draws_count_as_rows_of_a_batch(
    policy: SlowPolicy, start: Start, ask: Ask, draws: int, batches: list[int]
) -> None:
    batcher = start(max_batch=4)

    async def main() -> None:
        futures = [await held(policy, batcher, ask)]
        futures += [batcher.submit(replace(ask(i), draws=draws)) for i in range(6)]
        policy.gate.set()
        await asyncio.gather(*futures)

    run(main())
    assert policy.batches == [1, *batches]


def test_draws_take_the_time_of_as_many_rows(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    """20 ms a row and stage: of 200 ms a request gets the tokens that its draws leave time for."""
    batcher = start(max_batch=4)
    latencies = batcher.latencies
    for size, budget in latencies.table_ms:
        latencies.table_ms[size, budget] = 20.0 * size * (latencies.budgets.index(budget) + 1)
    latencies.slowness = latencies.reply_ms = 1.0

    async def main() -> list[Any]:
        first = await held(policy, batcher, ask)
        budgets = []
        for draws in (1, 2, 4, 8):
            now = time.perf_counter()
            batcher.submit(replace(ask(within_s=0.21, now=now), draws=draws))
            with batcher._changed:
                budgets.append(batcher._take(now)[1])
        policy.gate.set()
        await first
        return budgets

    assert run(main()) == [8, 8, 2, 1]


@pytest.mark.parametrize("max_batch", [2, 4])
def test_every_robot_and_row_count_is_measured_before_the_first_request(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, max_batch: int
) -> None:
    robots = {name: make_policy(tmp_path / name) for name in ("a", "b")}
    batcher = Batcher(robots["a"], max_batch=max_batch, max_queue=9, robots=dict(robots))
    batcher.start()

    def fail(*parts: Any, **options: Any) -> None:
        raise AssertionError("a request waits for a measurement")

    monkeypatch.setattr("oatkit.policies.generation.token_predictor.measure_latency", fail)
    steps = np.zeros((1, 3), np.float32)

    async def main() -> None:
        for robot in robots:
            for draws in (1, 2, 3, 9):
                for committed in (None, steps):
                    options = {"embodiment": robot, "draws": draws, "committed": committed}
                    await batcher.submit(replace(ask(within_s=9), **options))

    run(main())
    batcher.close()


def test_every_row_says_how_many_of_its_steps_are_worth_executing(
    light: Policy, policy: SlowPolicy, start: Start, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    batcher = start()

    async def main() -> list[Answer]:
        rules = Sampling(temperature=0)
        futures = [await held(policy, batcher, ask)]
        futures += [batcher.submit(ask(state, sampling=rules)) for state in (-9, -3, 3, 9)]
        policy.gate.set()
        return await asyncio.gather(*futures)

    assert [answer.execute_steps for answer in run(main())] == [None] * 5
    entropies = [np.mean(answer.entropy_bits) for answer in run(main())[1:]]
    edge_bits = float(np.sort(entropies)[1:3].mean())
    table = tiny.two_lengths(edge_bits)
    monkeypatch.setattr(light, "execution", table)
    steps = [answer.execute_steps for answer in run(main())[1:]]
    assert steps == [table.bin_steps[int(bits > edge_bits)] for bits in entropies]
    assert set(steps) == set(table.bin_steps)


def test_budgets_are_not_mixed(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start()

    async def main() -> list[Answer]:
        first = await held(policy, batcher, ask)
        futures = [batcher.submit(ask(budget=k)) for k in (2, None, 2, 8)]
        policy.gate.set()
        await first
        return await asyncio.gather(*futures)

    assert [len(answer.tokens) for answer in run(main())] == [2, 8, 2, 8]
    assert policy.batches == [1, 2, 1, 1]


def test_sampling_rules_are_not_mixed_but_seeds_are(
    policy: SlowPolicy, start: Start, ask: Ask
) -> None:
    batcher = start()
    rules = [
        Sampling(0),
        Sampling(top_p=0.5),
        Sampling(0),
        Sampling(0, seed=1),
        Sampling(0, seed=2),
    ]

    async def main() -> None:
        first = await held(policy, batcher, ask)
        futures = [batcher.submit(ask(sampling=sampling)) for sampling in rules]
        policy.gate.set()
        await asyncio.gather(first, *futures)

    run(main())
    assert policy.batches == [1, 2, 1, 2]


def test_the_most_urgent_comes_first(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start(max_batch=1)
    order: list[int] = []

    async def main() -> None:
        first = await held(policy, batcher, ask)
        now = time.perf_counter()
        requests = [ask(within_s=within_s, now=now) for within_s in (None, 0.9, 0.5, 30)]
        futures = [batcher.submit(request) for request in requests]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: order.append(number))
        policy.gate.set()
        await asyncio.gather(first, *futures)

    run(main())
    assert order == [2, 1, 0, 3], "one without a deadline is due after a second"


def test_a_full_queue_is_busy(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start(max_queue=2)

    async def main() -> None:
        futures = [await held(policy, batcher, ask), batcher.submit(ask()), batcher.submit(ask())]
        with pytest.raises(BusyError, match="busy: 2 requests wait already; ask again later"):
            batcher.submit(ask())
        policy.gate.set()
        await asyncio.gather(*futures)
        await batcher.submit(ask())

    run(main())


def test_what_was_given_up_is_not_computed(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start()

    async def main() -> None:
        first = await held(policy, batcher, ask)
        abandoned, other = batcher.submit(ask()), batcher.submit(ask())
        abandoned.cancel()
        policy.gate.set()
        await asyncio.gather(first, other)

    run(main())
    assert policy.batches == [1, 1]


def test_one_bad_request_does_not_fail_the_others(
    policy: SlowPolicy, start: Start, ask: Ask
) -> None:
    batcher = start()
    policy.poison = 7.0

    async def main() -> list[Any]:
        first = await held(policy, batcher, ask)
        futures = [batcher.submit(ask(state)) for state in (1, 7, 2)]
        policy.gate.set()
        await first
        return await asyncio.gather(*futures, return_exceptions=True)

    good, bad, also_good = run(main())
    assert isinstance(bad, RuntimeError)
    assert good.actions.shape == also_good.actions.shape == (8, 3)
    assert policy.batches == [1, 3, 1, 1, 1]


def test_closing_finishes_what_waits(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start()

    async def main() -> list[Answer]:
        futures = [await held(policy, batcher, ask), *(batcher.submit(ask()) for _ in range(5))]
        policy.gate.set()
        await asyncio.to_thread(batcher.close)
        with pytest.raises(BusyError, match="shutting down"):
            batcher.submit(ask())
        return await asyncio.gather(*futures)

    assert len(run(main())) == 6
    assert not batcher.is_healthy(60)


def test_a_hanging_prediction_is_noticed(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    batcher = start()

    async def main() -> None:
        assert batcher.is_healthy(0.01)
        first = await held(policy, batcher, ask)
        await asyncio.sleep(0.05)
        assert not batcher.is_healthy(0.01)
        assert batcher.is_healthy(60)
        policy.gate.set()
        await first

    run(main())


def set_latencies(batcher: Batcher, ms_per_budget: float) -> None:
    """Every batch size takes so long for each budget after the other."""
    for size, budget in batcher.latencies.table_ms:
        stage = batcher.latencies.budgets.index(budget) + 1
        batcher.latencies.table_ms[size, budget] = ms_per_budget * stage
    batcher.latencies.slowness = batcher.latencies.reply_ms = 1.0


def test_time_in_the_queue_counts(policy: SlowPolicy, start: Start, ask: Ask) -> None:
    """50 ms a stage and 4 stages: after 0.2 s of waiting only some of them fit."""
    batcher = start()
    set_latencies(batcher, 50.0)
    policy.stage_s = 0.05

    async def main() -> list[Answer]:
        first = await held(policy, batcher, ask)
        futures = [batcher.submit(ask(within_s=0.36)), batcher.submit(ask(within_s=10))]
        await asyncio.sleep(0.2)
        policy.stage_s = 0.0
        policy.gate.set()
        await first
        return await asyncio.gather(*futures)

    hurried, patient = run(main())
    assert len(hurried.tokens) < 8
    assert len(patient.tokens) == 8
    assert policy.batches == [1, 1, 1], "the patient one is not held back by the other"


def test_those_who_wait_are_left_their_first_prefix(
    policy: SlowPolicy, start: Start, ask: Ask
) -> None:
    """Ten batches of one in 600 ms, where all tokens take 200: each must take less."""
    batcher = start(max_batch=1)
    set_latencies(batcher, 50.0)

    async def main() -> tuple[list[int | None], float]:
        first = await held(policy, batcher, ask)
        began = now = time.perf_counter()
        futures = [batcher.submit(ask(within_s=0.6, now=now)) for _ in range(10)]
        budgets = []
        for _ in futures:
            with batcher._changed:
                _, budget = batcher._take(now)
            budgets.append(budget)
            now += batcher.latencies.expected_ms(1, budget) / 1000
        policy.gate.set()
        await first
        return budgets, now - began

    budgets, took_s = run(main())
    assert budgets == [2] + [1] * 9
    assert took_s <= 0.6


def test_a_batch_is_no_larger_than_the_most_urgent_has_time_for(
    policy: SlowPolicy, start: Start, ask: Ask
) -> None:
    batcher = start(max_batch=4)
    for size, budget in batcher.latencies.table_ms:
        batcher.latencies.table_ms[size, budget] = 20.0 * size
    batcher.latencies.slowness = batcher.latencies.reply_ms = 1.0

    async def main() -> int:
        first = await held(policy, batcher, ask)
        now = time.perf_counter()
        for _ in range(4):
            batcher.submit(ask(within_s=0.05, now=now))
        with batcher._changed:
            batch, _ = batcher._take(now)
            batcher._waiting.clear()
        policy.gate.set()
        await first
        return len(batch)

    assert run(main()) == 2
