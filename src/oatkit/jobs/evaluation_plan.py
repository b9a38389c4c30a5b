"""What an evaluation will run, checked before the first episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from oatkit.envs.simulator import SimulatorKind
from oatkit.envs.simulator_table import SIMULATORS, simulator_kind
from oatkit.evaluation.action_plan import cannot_commit, not_calibrated
from oatkit.evaluation.policy_view import require_tasks
from oatkit.evaluation.queried_policy import EvaluatedPolicy, Observed
from oatkit.evaluation.rollout import Rollout
from oatkit.types import Execution, Sampling, Schedule
from oatkit.types.observation_keys import STATE


@dataclass(frozen=True)
class EvaluationPlan:
    """What an evaluation runs.

    Attributes:
        policy: What acts, and at which budgets.
        simulator: Where it acts.
        tasks: Names of the tasks, as the simulator spells them.
        rollout: Protocol of an episode.
    """

    policy: EvaluatedPolicy
    simulator: SimulatorKind
    tasks: tuple[str, ...]
    rollout: Rollout

    def settings(self) -> dict[str, Any]:
        """All that decides an episode, beside its task, budget and number, as JSON values."""
        policy, simulator, rollout = self.policy, self.simulator, self.rollout
        execution, spec = rollout.execution, policy.acting.spec
        has_shadows = simulator.make is not simulator.make_without_shadows
        return {
            "env": self.simulator.name,
            "execute": execution.steps,
            "blend": execution.blend,
            "delay": execution.delay,
            "draws": execution.draws,
            **({"commit": True} if execution.commit else {}),  # records of before have none
            "sampling": asdict(rollout.sampling),
            "state_keys": list(rollout.state_keys),
            "endpoints": rollout.endpoints,
            "horizon": policy.horizon,
            "history": spec.history,
            "max_steps": self.simulator.max_steps,
            "shadows": has_shadows if spec.cameras else None,
            **({} if policy.head is None else {"head": policy.head}),
            "digest": policy.digest,
            "packages": simulator.package_versions(),
        }


def plan_evaluation(
    policy: EvaluatedPolicy,
    named: str | SimulatorKind,
    rollout: Rollout,
    tasks: Sequence[str],
    shadows: bool = True,
) -> EvaluationPlan:
    """The plan of an evaluation; what the policy or the simulator cannot do is a `ValueError`."""
    spec = policy.acting.spec
    simulator = _choose_simulator(named, spec, shadows=shadows)
    names = fitting_tasks(spec, simulator, tasks, policy.action_dim)
    if len(set(policy.budgets)) < len(policy.budgets):
        raise ValueError(_not_once("budgets", policy.budgets))
    return EvaluationPlan(policy, simulator, names, rollout)


def fitting_tasks(
    spec: Observed, simulator: SimulatorKind, tasks: Sequence[str], action_dim: int | None
) -> tuple[str, ...]:
    """The tasks as the simulator spells them; what a policy cannot do there is a `ValueError`.

    Args:
        spec: What the policy observes.
        simulator: Where it acts.
        tasks: Names of tasks; those that the policy was trained on if empty.
        action_dim: Number of action dimensions of the policy; None where it is unknown.
    """
    asked = tasks or _known_tasks(spec, simulator)
    names = tuple(simulator.task_name(task) for task in asked)
    if len(set(names)) < len(names):
        raise ValueError(_not_once("tasks", names))
    if action_dim not in (None, len(simulator.action_low)):
        raise ValueError(
            f"the policy is for {action_dim} action dimensions, {simulator.name} has "
            f"{len(simulator.action_low)}"
        )
    require_tasks(spec, simulator, names)
    return names


def _not_once(what: str, values: Sequence[object]) -> str:
    return f"{what} are [{', '.join(map(str, values))}], expected each once"


def _choose_simulator(
    simulator: str | SimulatorKind, spec: Observed, *, shadows: bool
) -> SimulatorKind:
    """A simulator by its name, with or without shadows in the images that the policy reads."""
    kind = simulator_kind(simulator) if isinstance(simulator, str) else simulator
    if shadows:
        return kind
    if kind.make_without_shadows is None or not spec.cameras:
        names = [name for name, known in SIMULATORS.items() if known.make_without_shadows]
        raise ValueError(
            f"--no-shadows is for policies that read images of {' or '.join(names)}: leave it out"
        )
    return replace(kind, make=kind.make_without_shadows)


def make_rollout(
    policy: EvaluatedPolicy,
    execution: Execution,
    sampling: Sampling,
    state_keys: Sequence[str],
    schedule: Schedule | None,
) -> Rollout:
    """The protocol of an episode; what is left open is as the policy was trained."""
    if execution.steps == "auto" and not policy.has_execute_steps:
        raise ValueError(not_calibrated())
    if execution.commit and not policy.takes_committed:
        raise ValueError(cannot_commit(policy.name))
    return Rollout(
        execution=execution if policy.horizon is None else execution.within(policy.horizon),
        sampling=replace(sampling, seed=sampling.seed or 0),
        state_keys=tuple(state_keys) or policy.state_keys or (STATE,),
        endpoints=None if schedule is None else schedule.endpoints,
        scale=policy.scale,
    )


def _known_tasks(spec: Observed, simulator: SimulatorKind) -> tuple[str, ...]:
    known = [task for task, text in simulator.tasks.items() if text in spec.tasks]
    return tuple(known) or simulator.default_tasks
