"""What a policy reads of a simulator, and whether the two fit together."""

from __future__ import annotations

from collections.abc import Iterable

from oatkit.envs.simulator import SimulatorKind
from oatkit.errors import unknown_name
from oatkit.evaluation.queried_policy import Observed
from oatkit.evaluation.simulator_workers import View


def policy_view(spec: Observed, simulator: SimulatorKind, state_keys: tuple[str, ...]) -> View:
    """What a policy reads of a simulator; a camera that the simulator lacks is an error."""
    keys = () if spec.state_dim == 0 else state_keys
    return View(keys, simulator.checked_cameras(spec.cameras), spec.history)


def needs_task(spec: Observed, simulator: SimulatorKind) -> bool:
    """Whether observations bring the instruction: not where policy and simulator have only one."""
    return len(simulator.tasks) > 1 or len(spec.tasks) != 1


def require_tasks(spec: Observed, simulator: SimulatorKind, tasks: Iterable[str]) -> None:
    """Refuse a task that the simulator does not have or that the policy was not trained on."""
    for task in tasks:
        instruction = simulator.tasks[simulator.task_name(task)]
        if needs_task(spec, simulator) and spec.tasks and instruction not in spec.tasks:
            raise ValueError(
                f"the policy was not trained on {task}: "
                + unknown_name("instruction", instruction, spec.tasks)
            )
