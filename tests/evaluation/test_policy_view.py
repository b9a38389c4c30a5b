from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.evaluation.policy_view import needs_task, policy_view, require_tasks
from oatkit.evaluation.simulator_workers import View
from oatkit.types.observation_keys import STATE
from tests.evaluation.pilot import Pilot
from tests.evaluation.plane import PLANE

SPEC = Pilot(history=3, cameras={"top": (4, 6), "below": (8, 2)}).spec
ONE_TASK = replace(PLANE, tasks={"near": PLANE.tasks["near"]})


def test_a_view_has_the_cameras_and_frames_of_the_policy() -> None:
    view = policy_view(SPEC, PLANE, (STATE,))
    assert view == View((STATE,), {"top": (4, 6), "below": (8, 2)}, 3)


def test_a_policy_without_state_gets_none() -> None:
    assert policy_view(replace(SPEC, state=None), PLANE, (STATE,)).state_keys == ()


def test_a_camera_that_is_not_there() -> None:
    spec = replace(SPEC, cameras={"left": (4, 4)})
    with pytest.raises(ValueError, match="unknown camera of plane 'left'; known, closest first"):
        policy_view(spec, PLANE, ())


def test_the_only_task_need_not_be_said() -> None:
    only = replace(SPEC, tasks=("Some other words.",))
    assert not needs_task(only, ONE_TASK)
    require_tasks(only, ONE_TASK, ["near"])
    assert needs_task(SPEC, ONE_TASK)
    assert needs_task(only, PLANE)


def test_tasks_that_were_not_trained_on() -> None:
    require_tasks(SPEC, PLANE, PLANE.tasks)
    require_tasks(replace(SPEC, tasks=()), PLANE, PLANE.tasks)
    with pytest.raises(ValueError, match="the policy was not trained on near: unknown instruct"):
        require_tasks(replace(SPEC, tasks=("Go home.",)), PLANE, ["near"])
    with pytest.raises(ValueError, match="unknown plane task 'nar'"):
        require_tasks(SPEC, PLANE, ["nar"])
