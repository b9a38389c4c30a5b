"""Planned actions whose next chunk comes in the background."""

from __future__ import annotations

from oatkit_client.background_plan import BackgroundPlan
from oatkit_client.planned_actions import PlannedActions
from oatkit_client.step_limit import StepLimit

from tests.oatkit_client.counting import Counting


def test_a_chunk_is_prepared_received_and_bridged() -> None:
    policy = Counting(horizon=2)
    background = BackgroundPlan(policy, PlannedActions(), StepLimit(20, "hold"))
    background.prepare(lambda: {"x": 5})
    assert [int(background.next()[0]) for _ in range(2)] == [5, 6]
    policy.gate.clear()
    background.begin_step()
    background.ask({"x": 7})
    assert not background.receive(is_waiting=True)
    assert int(background.bridge()[0]) == 6
    assert (background.num_held, background.is_stale) == (1, True)
    policy.gate.set()
    background.begin_step()
    assert background.receive(is_waiting=True)
    assert int(background.next()[0]) == 7
    assert not background.is_stale
    background.reset()
    assert (background.reply, background.plan.num_left) == ({}, 0)
    background.close()
