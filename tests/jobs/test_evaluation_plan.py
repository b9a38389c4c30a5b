"""What the policy or the simulator cannot do is said before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oatkit.evaluation.queried_policy import EvaluatedPolicy
from oatkit.jobs.evaluation_plan import make_rollout
from oatkit.types import Execution, Sampling
from tests.evaluation.pilot import Pilot
from tests.jobs.plane_evaluations import Eval


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budgets": (5,)}, r"budget 5 is outside 1 \.\. 4"),
        ({"budgets": (0,)}, "budget 0 is outside"),
        ({"budgets": (1, 1)}, "expected each once"),
        ({"budgets": (4, None)}, r"budgets are \[4, 4\], expected each once"),
        ({"budgets": ("auto",)}, "budget 'auto' has no thresholds"),
        ({"execute": 9}, "execute is 9, expected 1 to 8"),
        ({"execute": 0}, "execute is 0, expected a whole number from 1 on"),
        (
            {"execute": "often"},
            "execute is 'often', expected a whole number from 1 on, 'auto'",
        ),
        ({"execute": "auto"}, "`oatkit policy calibrate POLICY --data DATA` finds it"),
        ({"blend": -1}, "blend is -1, expected a finite number from 0 on"),
        ({"delay": -1}, "delay is -1, expected a whole number from 0 on"),
        ({"execute": 6, "delay": 3}, "delay is 3, expected at most 2: a chunk has 8 steps"),
        ({"draws": 0}, "draws is 0, expected a whole number from 1 on"),
        ({"tasks": ("nearr",)}, "unknown plane task 'nearr'; known, closest first: near"),
        ({"tasks": ("near", "near")}, "expected each once"),
        ({"shadows": False}, "--no-shadows is for policies that read images of metaworld"),
        ({"simulator": "metaworld", "tasks": ()}, "is for 2 action dimensions, metaworld has 4"),
        ({"simulator": "pushed"}, "unknown simulator 'pushed'; known, closest first: pusht"),
        ({"head": "flow"}, "light has no head 'flow'"),
    ],
)
def test_wrong_plans(run: Eval, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**change)
    assert not (tmp_path / "a").exists()


def test_defaults_are_what_the_policy_was_trained_on(run: Eval) -> None:
    record = run(tasks=(), budgets=(), episodes=1)
    assert {e.task for e in record.episodes} == {"near", "far", "never"}
    assert {e.budget for e in record.episodes} == {4}
    assert record.settings["execute"] == 4
    assert record.settings["state_keys"] == ["observation.state", "observation.environment_state"]


def test_commit_is_for_policies_that_take_committed_actions() -> None:
    policy = EvaluatedPolicy(Pilot(), "out/bin", "bin", (4,), 8, 2, None)
    assert make_rollout(policy, Execution(2, delay=1), Sampling(), (), None).execution.delay == 1
    message = (
        "out/bin takes no committed actions, which are for tokens whose prefixes decode, such as "
        "those of oat: leave commit out"
    )
    with pytest.raises(ValueError, match=message):
        make_rollout(policy, Execution(2, delay=1, commit=True), Sampling(), (), None)
